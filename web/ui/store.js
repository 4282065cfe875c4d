// The chats of this browser, in IndexedDB; in memory alone where that is refused (private windows).
import {Conversation} from "./tree.js";

const chats = new Map(); // id -> Conversation
let database = null;
const others = "BroadcastChannel" in globalThis ? new BroadcastChannel("colibri-chats") : null;

const finished = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

export async function openStore(onChange) {
  try {
    const opening = indexedDB.open("colibri", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("chats", {keyPath: "id"});
    database = await finished(opening);
    const raw = await finished(database.transaction("chats").objectStore("chats").getAll());
    for (const one of raw) {
      const chat = Conversation.fromJSON(one);
      if (chat) chats.set(chat.id, chat);
    }
  } catch { /* refused: the chats last as long as the page */
  }
  if (others)
    others.onmessage = async ({data}) => {
      await reload(data);
      onChange(data);
    };
  return database !== null;
}

async function reload(id) {
  if (!database) return;
  const raw = await finished(database.transaction("chats").objectStore("chats").get(id)).catch(() => null);
  const chat = Conversation.fromJSON(raw);
  if (chat) chats.set(chat.id, chat);
  else chats.delete(id);
}

/** Newest first; `search`: those that contain every word of it. */
export function listChats(search = "") {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return [...chats.values()].filter((chat) => chat.contains(words)).sort((a, b) => b.updated - a.updated);
}

export const chatById = (id) => chats.get(id) ?? null;

/** Rejects when the storage is full; the chat lives on in memory. */
export async function saveChat(chat) {
  chats.set(chat.id, chat);
  if (!database) return;
  await finished(database.transaction("chats", "readwrite").objectStore("chats").put(chat.toJSON()));
  others?.postMessage(chat.id);
}

export async function deleteChat(id) {
  chats.delete(id);
  if (!database) return;
  await finished(database.transaction("chats", "readwrite").objectStore("chats").delete(id));
  others?.postMessage(id);
}
