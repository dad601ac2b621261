import { encodePathText, normalizePath } from '../../text/path.ts'
import { normalizeHost, type PathPrefixes } from '../patterns.ts'
import type { Selector } from '../schema/selector.ts'

/** The part of a policy that the index uses. */
interface Routed {
  /** Its index in the bundle. */
  readonly index: number
  readonly isShadow: boolean
  readonly exceptPaths?: PathPrefixes | undefined
}

/**
 * Finds the policies that cover a request, in time that depends on the request alone: by the segments of its path,
 * then by host, then by method. Policies that do not match are never visited, however many there are.
 */
export class RouteIndex<P extends Routed> {
  readonly #root = new PathNode<P>()
  /** Whether any policy is bound to hosts. */
  usesHosts = false
  /** Whether any policy has `exceptPaths`. */
  hasExceptions = false

  add(policy: P, selector: Selector): void {
    const path = normalizePath(encodePathText(selector.pathExact ?? selector.pathPrefix ?? '/'))
    this.usesHosts ||= selector.hosts !== undefined
    this.hasExceptions ||= policy.exceptPaths !== undefined
    let node = this.#root
    const isExact = selector.pathExact !== undefined
    for (const segment of segmentsOf(path, isExact)) node = node.childOrNew(segment)
    const hosts = (isExact ? node.exact : node.prefix) ?? new HostIndex<P>()
    if (isExact) node.exact = hosts
    else node.prefix = hosts
    hosts.add(policy, selector)
  }

  /**
   * Puts the policies that cover the request into `found`, in bundle order; path, host and method are normalised.
   * Returns false if an enforcing policy is bound to hosts and the request names none: then it is unknown whether the
   * policy covers it. `exceptedPath` is what is compared with `exceptPaths`.
   */
  match(path: string, host: string, method: string, found: Matches<P>, exceptedPath = path): boolean {
    found.count = 0
    let isDecided = this.#root.prefix === undefined || this.#root.prefix.match(exceptedPath, host, method, found)
    let node: PathNode<P> | undefined = this.#root
    let start = 1
    while (node !== undefined) {
      if (!node.hasChildren) {
        node = undefined
        break
      }
      const slash: number = path.indexOf('/', start)
      node = node.child(path, start, slash < 0 ? path.length : slash)
      if (node?.prefix !== undefined) isDecided = node.prefix.match(exceptedPath, host, method, found) && isDecided
      if (slash < 0) break
      start = slash + 1
    }
    if (node?.exact !== undefined) isDecided = node.exact.match(exceptedPath, host, method, found) && isDecided
    if (this.hasExceptions) found.dropExcepted(exceptedPath)
    if (found.count > 1) found.putInBundleOrder()
    return isDecided
  }
}

/** The policies that cover a request. The list is reused: only the first `count` entries are valid. */
export class Matches<P extends Routed> {
  count = 0
  readonly policies: (P | undefined)[] = []
  #list: readonly P[] = []

  /** The policies as a list that never changes. Requests in a row that the same policies cover share one, because most do. */
  get list(): readonly P[] {
    const { count, policies } = this
    let same = this.#list.length === count ? 0 : -1
    while (same >= 0 && same < count) same = this.#list[same] === policies[same] ? same + 1 : -1
    if (same < 0) this.#list = policies.slice(0, count) as P[]
    return this.#list
  }

  add(policy: P): void {
    this.policies[this.count++] = policy
  }

  /** Drops the policies whose `exceptPaths` cover the path. */
  dropExcepted(path: string): void {
    const { policies } = this
    let kept = 0
    for (let i = 0; i < this.count; i++) if (!isExcepted(policies[i]!, path)) policies[kept++] = policies[i]
    for (let i = kept; i < this.count; i++) policies[i] = undefined
    this.count = kept
  }

  /** Also drops duplicates: a policy can match by both `a.example.com` and `*.example.com`. */
  putInBundleOrder(): void {
    const { policies } = this
    if (this.count > 16) {
      policies.length = this.count
      policies.sort((a, b) => a!.index - b!.index)
    } else {
      this.#sortFew()
    }
    let kept = 1
    for (let i = 1; i < this.count; i++) if (policies[i] !== policies[i - 1]) policies[kept++] = policies[i]!
    for (let i = kept; i < this.count; i++) policies[i] = undefined
    this.count = kept
  }

  /** Uses insertion sort, because the entries are few and nearly sorted, and it needs no comparator calls. */
  #sortFew(): void {
    const { policies } = this
    for (let i = 1; i < this.count; i++) {
      const policy = policies[i]!
      let j = i - 1
      for (; j >= 0 && policies[j]!.index > policy.index; j--) policies[j + 1] = policies[j]!
      policies[j + 1] = policy
    }
  }
}

/** A prefix ends at its last non-empty segment: `/api/` covers what `/api` covers. */
function segmentsOf(path: string, isExact: boolean): string[] {
  const segments = path.slice(1).split('/')
  if (!isExact && segments.at(-1) === '') segments.pop()
  return segments
}

class PathNode<P extends Routed> {
  prefix: HostIndex<P> | undefined
  exact: HostIndex<P> | undefined
  hasChildren = false
  #children: Map<string, PathNode<P>> | undefined
  // A single child is the common case: comparing it in place saves a string and its hash.
  #onlySegment = ''
  #onlyChild: PathNode<P> | undefined

  childOrNew(segment: string): PathNode<P> {
    this.#children ??= new Map()
    let child = this.#children.get(segment)
    if (child === undefined) {
      child = new PathNode<P>()
      this.#children.set(segment, child)
      this.hasChildren = true
      this.#onlySegment = segment
      this.#onlyChild = this.#children.size === 1 ? child : undefined
    }
    return child
  }

  child(path: string, start: number, end: number): PathNode<P> | undefined {
    if (this.#onlyChild === undefined) return this.#children?.get(path.slice(start, end))
    return end - start === this.#onlySegment.length && path.startsWith(this.#onlySegment, start) ? this.#onlyChild : undefined
  }
}

/** Each path has a host index, and there may be tens of thousands of paths, so its parts are allocated only when they are needed. */
class HostIndex<P extends Routed> {
  #anyHost: MethodIndex<P> | undefined
  #byHost: Map<string, MethodIndex<P>> | undefined
  /** Holds `*.example.com` under the key `example.com`. */
  #bySuffix: Map<string, MethodIndex<P>> | undefined
  /** Enforcing policies that are bound to hosts. */
  #needHost: MethodIndex<P> | undefined

  add(policy: P, selector: Selector): void {
    const methods = selector.methods && new Set(selector.methods.map((method) => method.toUpperCase()))
    if (selector.hosts === undefined) {
      this.#anyHost ??= new MethodIndex<P>()
      this.#anyHost.add(policy, methods)
      return
    }
    for (const pattern of new Set(selector.hosts)) {
      const isSuffix = pattern.startsWith('*.')
      if (isSuffix) this.#bySuffix ??= new Map()
      else this.#byHost ??= new Map()
      const index = (isSuffix ? this.#bySuffix : this.#byHost)!
      const name = normalizeHost(isSuffix ? pattern.slice(2) : pattern)
      if (!index.has(name)) index.set(name, new MethodIndex<P>())
      index.get(name)!.add(policy, methods)
    }
    if (policy.isShadow) return
    this.#needHost ??= new MethodIndex<P>()
    this.#needHost.add(policy, methods)
  }

  match(exceptedPath: string, host: string, method: string, found: Matches<P>): boolean {
    if (this.#anyHost !== undefined) this.#anyHost.match(method, found)
    if (host === '') return this.#needHost === undefined || !this.#needHost.covers(exceptedPath, method)
    if (this.#byHost !== undefined) this.#byHost.get(host)?.match(method, found)
    if (this.#bySuffix !== undefined) {
      for (let dot = host.indexOf('.'); dot >= 0; dot = host.indexOf('.', dot + 1)) {
        this.#bySuffix.get(host.slice(dot + 1))?.match(method, found)
      }
    }
    return true
  }
}

class MethodIndex<P extends Routed> {
  #anyMethod: P[] | undefined
  #byMethod: Map<string, P[]> | undefined

  add(policy: P, methods: Iterable<string> | undefined): void {
    if (methods === undefined) {
      this.#anyMethod ??= []
      addOnce(this.#anyMethod, policy)
      return
    }
    this.#byMethod ??= new Map()
    for (const method of methods) {
      const policies = this.#byMethod.get(method)
      if (policies === undefined) this.#byMethod.set(method, [policy])
      else addOnce(policies, policy)
    }
  }

  match(method: string, found: Matches<P>): void {
    addAll(this.#anyMethod, found)
    if (this.#byMethod !== undefined) addAll(this.#byMethod.get(method), found)
  }

  covers(path: string, method: string): boolean {
    return hasUnexcepted(this.#anyMethod, path) || hasUnexcepted(this.#byMethod?.get(method), path)
  }
}

function addAll<P extends Routed>(policies: readonly P[] | undefined, found: Matches<P>): void {
  if (policies !== undefined) for (let i = 0; i < policies.length; i++) found.add(policies[i]!)
}

function hasUnexcepted<P extends Routed>(policies: readonly P[] | undefined, path: string): boolean {
  return policies?.some((policy) => !isExcepted(policy, path)) ?? false
}

function isExcepted({ exceptPaths }: Routed, path: string): boolean {
  return exceptPaths?.cover(path) ?? false
}

/** Two patterns of one policy may lead to the same list. They are added one right after the other, so only the last entry is compared. */
function addOnce<P>(list: P[], policy: P): void {
  if (list.at(-1) !== policy) list.push(policy)
}
