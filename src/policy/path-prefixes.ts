import { encodePathText, normalizePath } from './path.ts'

/** Paths, each with everything below it: a tree by segment. Finding one takes time by the request's path, not by how many there are. */
export class PathPrefixes {
  readonly #root = newNode()

  /** Normalised here; a slash at the end means nothing. */
  constructor(paths: readonly string[]) {
    for (const path of paths) {
      let node = this.#root
      for (const segment of normalizePath(encodePathText(path)).split('/')) if (segment !== '') node = childOf(node, segment)
      node.isEnd = true
    }
  }

  /** The path is normalised. */
  cover(path: string): boolean {
    let node: PrefixNode | undefined = this.#root
    let start = 1
    while (!node.isEnd) {
      const slash = path.indexOf('/', start)
      node = node.children.get(path.slice(start, slash < 0 ? undefined : slash))
      if (node === undefined || (slash < 0 && !node.isEnd)) return false
      start = slash + 1
    }
    return true
  }
}

interface PrefixNode {
  readonly children: Map<string, PrefixNode>
  /** One of the paths ends here, and covers all that is below. */
  isEnd: boolean
}

function newNode(): PrefixNode {
  return { children: new Map(), isEnd: false }
}

function childOf({ children }: PrefixNode, segment: string): PrefixNode {
  const child = children.get(segment) ?? newNode()
  children.set(segment, child)
  return child
}
