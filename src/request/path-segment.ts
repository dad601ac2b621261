/** The n-th segment of a normalised path, from 1; undefined where it has fewer. A path that ends in a slash has an empty last one. */
export function pathSegment(path: string, n: number): string | undefined {
  let from = 1
  for (let i = 1; i < n; i++) {
    const slash = path.indexOf('/', from)
    if (slash < 0) return undefined
    from = slash + 1
  }
  const end = path.indexOf('/', from)
  return end < 0 ? path.slice(from) : path.slice(from, end)
}
