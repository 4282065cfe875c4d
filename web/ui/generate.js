// One answer being made: the request, and what its stream adds to a node of the conversation.
import {ApiError, errorFrom, stream} from "./api.js";
import {requestMembers} from "./settings.js";
import {cleanActivations} from "./tree.js";

/**
 * Fills `node` (an assistant's, empty) until the stream ends; calls `changed(state)` as it grows. Never throws: what
 * went wrong is in node.error, with node.errorCode. state: {progress, queue, tokens, since}.
 */
export async function generate(chat, node, model, signal, changed) {
  const begun = performance.now();
  const state = {progress: null, queue: null, tokens: 0, since: begun};
  const marks = {first: 0, last: 0, thought: 0};
  const body = {
    ...(model ? {model} : {}),
    messages: chat.messages(chat.parent(node)),
    stream: true,
    stream_options: {include_usage: true},
    return_progress: true,
    expert_activations: true,
    ...requestMembers()
  };
  try {
    for await (const chunk of stream("v1/chat/completions", {json: body, signal, byUser: true})) {
      if (chunk.error) throw errorFrom(chunk.error);
      take(node, chunk, state, marks);
      changed(state);
    }
    if (!node.finish) throw new ApiError("The connection ended before the answer did.");
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) node.finish = "stopped";
    else {
      node.error = error instanceof ApiError ? error.message : `The connection was lost: ${error.message}`;
      node.errorCode = error.code ?? "";
      if (error.requestId) node.error += ` (request ${error.requestId})`;
      if (error.retryAfter) node.error += ` Try again in ${error.retryAfter} s.`;
    }
  }
  finish(node, state, marks, begun);
}

function take(node, chunk, state, marks) {
  if (chunk.model) node.model = String(chunk.model);
  if (chunk.usage) node.usage = chunk.usage;
  if (chunk.timings) node.timings = chunk.timings;
  if (chunk.prompt_progress) state.progress = chunk.prompt_progress;
  if (typeof chunk.queue_position === "number") state.queue = chunk.queue_position;
  if (chunk.expert_activations) node.experts = cleanActivations(chunk.expert_activations) ?? node.experts;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  if (choice.finish_reason) node.finish = String(choice.finish_reason);
  const {content, reasoning_content: reasoning, tool_calls: calls} = choice.delta ?? {};
  if (!content && !reasoning && !calls?.length) return;
  marks.last = performance.now();
  marks.first ||= marks.last;
  ++state.tokens;
  if (reasoning) node.reasoning = (node.reasoning ?? "") + reasoning;
  if (content || calls?.length) marks.thought ||= marks.last;
  if (content) node.content += content;
  for (const call of calls ?? []) takeCall(node, call);
}

function takeCall(node, {index, id, function: part}) {
  if (!Number.isInteger(index) || index < 0 || index >= 128) return;
  node.toolCalls ??= [];
  while (node.toolCalls.length <= index) node.toolCalls.push({id: "", name: "", arguments: ""});
  const call = node.toolCalls[index];
  if (id) call.id = String(id);
  if (part?.name) call.name += part.name;
  if (part?.arguments) call.arguments += part.arguments;
}

function finish(node, state, marks, begun) {
  const {usage, timings} = node;
  delete node.usage;
  delete node.timings;
  if (!marks.first && !usage) return;
  const answerTokens = usage?.completion_tokens ?? state.tokens, spent = (marks.last - marks.first) / 1000;
  node.stats = {
    promptTokens: usage?.prompt_tokens ?? null,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? null,
    reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens ?? null,
    answerTokens,
    firstTokenSeconds: marks.first ? (marks.first - begun) / 1000 : null,
    tokensPerSecond:
        timings?.predicted_per_second ?? (answerTokens > 1 && spent > 0 ? (answerTokens - 1) / spent : null),
    thinkingSeconds: node.reasoning && marks.first ? ((marks.thought || marks.last) - marks.first) / 1000 : null,
  };
}
