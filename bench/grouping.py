"""Which requests belong together when every route is known beforehand: what a scheduler that has to guess is measured against."""
import random

SWAPS = 200  # tries for each request


def wanted(routes):
    """What requests together want: {layer: {expert: count}}."""
    total = {}
    for route in routes:
        for (layer, expert), count in route.items():
            of_layer = total.setdefault(layer, {})
            of_layer[expert] = of_layer.get(expert, 0) + count
    return total


def served(routes, room):
    """How many of their activations the `room` experts of each layer serve that they want most."""
    return sum(sum(sorted(of_layer.values())[-room:]) for of_layer in wanted(routes).values())


def by_routes(routes, batch, room, seed=0):
    """An order of the requests 0 .. len(routes) - 1, in which every `batch` that follow each other are served best by `room` experts of each layer.
    routes: {(layer, expert): count} of each request. Batches begin at random and exchange members for as long as both together gain; then each batch is
    followed by the one that the same experts serve best."""
    source, order = random.Random(seed), list(range(len(routes)))
    source.shuffle(order)
    batches = [order[start:start + batch] for start in range(0, len(order), batch)]
    value = lambda members: served([routes[n] for n in members], room)  # noqa: E731
    values = [value(members) for members in batches]
    for _ in range(SWAPS * len(routes) if len(batches) > 1 else 0):
        a, b = source.sample(range(len(batches)), 2)
        i, j = source.randrange(len(batches[a])), source.randrange(len(batches[b]))
        one, other = batches[a].copy(), batches[b].copy()
        one[i], other[j] = other[j], one[i]
        gained = value(one), value(other)
        if sum(gained) > values[a] + values[b]:
            batches[a], batches[b], values[a], values[b] = one, other, *gained
    return [n for members in chained(batches, routes, room) for n in members]


def chained(batches, routes, room):
    left, chain = list(batches), []
    while left:
        before = chain[-1] if chain else []
        following = max(left, key=lambda members: served([routes[n] for n in before + members], room))
        left.remove(following)
        chain.append(following)
    return chain
