"""Which requests belong together when every route is known beforehand: what a scheduler that has to guess is measured against."""


def similarity(one, other):
    """Of two {expert: count}, the cosine: 1 where they want the same experts equally often."""
    product = sum(count * other.get(expert, 0) for expert, count in one.items())
    return product / (length(one) * length(other)) if product else 0.0


def length(counts):
    return sum(count * count for count in counts.values()) ** 0.5


def add(total, counts):
    for expert, count in counts.items():
        total[expert] = total.get(expert, 0) + count


def by_routes(routes, batch):
    """An order of the requests 0 .. len(routes) - 1, of which every `batch` that follow each other want experts in common. Greedy: a batch takes the
    request nearest to what it wants already, and the next one begins with the request nearest to that batch."""
    left, order, wanted = set(range(len(routes))), [], {}
    while left:
        if len(order) % batch == 1 or not order:
            wanted = dict(routes[order[-1]]) if order else {}
        nearest = max(left, key=lambda n: (similarity(routes[n], wanted), -n))
        left.remove(nearest)
        order.append(nearest)
        add(wanted, routes[nearest])
    return order
