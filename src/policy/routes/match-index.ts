import type { DescriptorValue } from '../../request/descriptors.ts'
import { UNDECIDED } from '../../request/descriptors.ts'
import { REPEATED } from '../../request/view.ts'
import { NetworkIndex, subjectAddress } from '../networks.ts'
import type { PathPrefixes, Patterns } from '../patterns.ts'

/** A condition on the value of one key of the plan. */
export interface RouteCondition {
  readonly keyIndex: number
  /** Whether the value is in the body, and so unknown until the body is read. */
  readonly isInBody: boolean
  readonly patterns: Patterns
}

/** The values by which routes are chosen. */
export interface RouteValues {
  valueOf(keyIndex: number): DescriptorValue
}

/** The first route that covers a request, as far as its values are known. */
export interface FirstRoute {
  /** Infinity if there is none. */
  order: number
  /** `open`: whether it covers the request depends on a value that is not known yet; `ambiguous`: on one that can be read in more than one way. */
  verdict: 'sure' | 'open' | 'ambiguous'
}

/** A route in the index. */
interface Entry {
  readonly order: number
  /** What must hold beside the condition by which it is found. */
  readonly rest: readonly RouteCondition[]
}

/**
 * The routes with the same selector. A route is found by the value of one of its keys, the one that the fewest others share, so that thousands of routes
 * for different models or callers cost no more than one.
 */
export class MatchIndex {
  /** Position in the bundle of the first route that is here. */
  readonly index: number
  /** A request without a host is covered by no route that is bound to hosts, rather than refused. */
  readonly isShadow = true
  readonly exceptPaths: PathPrefixes | undefined
  /** The first route without conditions: later ones are never reached. */
  #unconditional = Number.POSITIVE_INFINITY
  readonly #byKey = new Map<number, KeyEntries>()

  constructor(index: number, exceptPaths: PathPrefixes | undefined) {
    this.index = index
    this.exceptPaths = exceptPaths
  }

  /** Routes are added in bundle order. */
  add(order: number, conditions: readonly RouteCondition[]): void {
    const found = this.#mostSelective(conditions)
    if (found === undefined) {
      this.#unconditional = Math.min(this.#unconditional, order)
      return
    }
    const { keyIndex, patterns } = found
    const entries = this.#byKey.get(keyIndex) ?? new KeyEntries()
    this.#byKey.set(keyIndex, entries)
    entries.add(patterns, { order, rest: conditions.filter((condition) => condition !== found) })
  }

  /** Improves `first`, which is the first route of other selectors. */
  find(values: RouteValues, first: FirstRoute): void {
    note(first, this.#unconditional, 'sure')
    for (const [keyIndex, entries] of this.#byKey) {
      const value = values.valueOf(keyIndex)
      if (typeof value === 'string') entries.find(value, values, first)
      else if (value === UNDECIDED) entries.findAny('open', values, first)
      else if (value === REPEATED) entries.findAny('ambiguous', values, first)
    }
  }

  /** A value that the head has is preferred: it is known before the body is read. */
  #mostSelective(conditions: readonly RouteCondition[]): RouteCondition | undefined {
    let best: RouteCondition | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const condition of conditions) {
      const shared = this.#byKey.get(condition.keyIndex)?.sharedBy(condition.patterns) ?? 0
      if (shared > fewest || (shared === fewest && (condition.isInBody || !best!.isInBody))) continue
      best = condition
      fewest = shared
    }
    return best
  }
}

/** The routes that are found by the value of one key. */
class KeyEntries {
  readonly #byText = new Map<string, Entry[]>()
  /** Prefixes by their length, so that a value is looked up once for each length. */
  readonly #byPrefix = new Map<number, Map<string, Entry[]>>()
  readonly #byNetwork = new NetworkIndex<Entry[]>()
  #hasNetworks = false
  /** The first entry of each combination of other conditions, for a value that is not known. */
  readonly #distinct = new Map<string, Entry>()

  add({ texts, prefixes, networks }: Patterns, entry: Entry): void {
    this.#hasNetworks ||= networks.length > 0
    for (const network of networks) {
      const list = this.#byNetwork.get(network)
      if (list === undefined) this.#byNetwork.set(network, [entry])
      else if (list.at(-1) !== entry) list.push(entry)
    }
    for (const text of texts) addTo(this.#byText, text, entry)
    for (const prefix of prefixes) {
      const sameLength = this.#byPrefix.get(prefix.length) ?? new Map<string, Entry[]>()
      this.#byPrefix.set(prefix.length, sameLength)
      addTo(sameLength, prefix, entry)
    }
    const key = JSON.stringify(
      entry.rest.map(({ keyIndex, patterns }) => [keyIndex, [...patterns.texts], patterns.prefixes, patterns.networks]),
    )
    if (!this.#distinct.has(key)) this.#distinct.set(key, entry)
  }

  /** How many routes share the most used one of these patterns. */
  sharedBy({ texts, prefixes, networks }: Patterns): number {
    let shared = 0
    for (const network of networks) shared = Math.max(shared, this.#byNetwork.get(network)?.length ?? 0)
    for (const text of texts) shared = Math.max(shared, this.#byText.get(text)?.length ?? 0)
    for (const prefix of prefixes) shared = Math.max(shared, this.#byPrefix.get(prefix.length)?.get(prefix)?.length ?? 0)
    return shared
  }

  find(value: string, values: RouteValues, first: FirstRoute): void {
    findIn(this.#byText.get(value), values, first)
    for (const [length, entries] of this.#byPrefix) {
      if (length <= value.length) findIn(entries.get(value.slice(0, length)), values, first)
    }
    const address = this.#hasNetworks ? subjectAddress(value) : undefined
    if (address !== undefined)
      this.#byNetwork.some(address, (entries) => {
        findIn(entries, values, first)
        return false
      })
  }

  /** `verdict` is what is known of the value itself. */
  findAny(verdict: FirstRoute['verdict'], values: RouteValues, first: FirstRoute): void {
    for (const entry of this.#distinct.values()) {
      if (entry.order >= first.order) continue
      const rest = verdictOn(entry.rest, values)
      if (rest !== undefined) note(first, entry.order, rest === 'ambiguous' ? rest : verdict)
    }
  }
}

function addTo(lists: Map<string, Entry[]>, text: string, entry: Entry): void {
  const list = lists.get(text)
  if (list === undefined) lists.set(text, [entry])
  // Two patterns of one route may lead to the same list.
  else if (list.at(-1) !== entry) list.push(entry)
}

/** Entries are in bundle order, so the first one that may hold is the best. */
function findIn(entries: readonly Entry[] | undefined, values: RouteValues, first: FirstRoute): void {
  if (entries === undefined) return
  for (const { order, rest } of entries) {
    if (order >= first.order) return
    const verdict = verdictOn(rest, values)
    if (verdict === undefined) continue
    note(first, order, verdict)
    return
  }
}

/** Returns undefined if a condition does not hold, whatever the others are. A body that cannot be read has no value. */
function verdictOn(conditions: readonly RouteCondition[], values: RouteValues): FirstRoute['verdict'] | undefined {
  let verdict: FirstRoute['verdict'] = 'sure'
  for (const { keyIndex, patterns } of conditions) {
    const value = values.valueOf(keyIndex)
    if (value === REPEATED) verdict = 'ambiguous'
    else if (value === UNDECIDED) verdict = verdict === 'sure' ? 'open' : verdict
    else if (typeof value !== 'string' || !patterns.cover(value)) return undefined
  }
  return verdict
}

function note(first: FirstRoute, order: number, verdict: FirstRoute['verdict']): void {
  if (order >= first.order) return
  first.order = order
  first.verdict = verdict
}
