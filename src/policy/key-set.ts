import type { Patterns } from './patterns.ts'
import type { StatedLimit } from './stated-limit.ts'

/** A rule for descriptors with certain keys. Positions are those of the keys among the set's names. */
export interface KeySetRule<R> {
  readonly rule: R
  /** In the bundle. */
  readonly order: number
  /** What tells callers apart. */
  readonly limitKeys: readonly number[]
  /** All must hold. */
  readonly conditions: readonly Condition[]
  /** It has a `match` of its own. */
  readonly isMatched: boolean
  /** It applies where no other rule of its policy with a `match` does. */
  readonly isElse: boolean
  /** One for each of its counters. */
  readonly stated: readonly StatedLimit[]
}

interface Condition {
  readonly position: number
  readonly patterns: Patterns
}

/**
 * The rules for descriptors with the same keys. A rule that wants a certain value of a key is found by that value, so that thousands of
 * them cost no more than one; only rules whose conditions are all prefixes are tried one by one.
 */
export class KeySet<R> {
  /** Sorted. */
  readonly names: readonly string[]
  readonly #tried: KeySetRule<R>[] = []
  /** By the position of a key and its value. Undefined where no rule is found by that key. */
  readonly #byValue: (Map<string, KeySetRule<R>[]> | undefined)[]

  constructor(names: readonly string[]) {
    this.names = names
    this.#byValue = names.map(() => undefined)
  }

  add(rule: KeySetRule<R>): void {
    const best = this.#mostSelective(rule.conditions)
    if (best === undefined) {
      this.#tried.push(rule)
      return
    }
    const lists = this.#byValue[best.position] ?? new Map<string, KeySetRule<R>[]>()
    this.#byValue[best.position] = lists
    for (const text of best.patterns.texts) {
      const list = lists.get(text)
      if (list === undefined) lists.set(text, [rule])
      else list.push(rule)
    }
  }

  /** Puts the rules whose conditions hold into `found`, from its beginning and in bundle order. Returns how many. `values` are in the order of the names. */
  find(values: readonly string[], found: KeySetRule<R>[]): number {
    let count = addThoseThatHold(this.#tried, values, found, 0)
    let isSorted = true
    for (let position = 0; position < this.#byValue.length; position++) {
      const list = this.#byValue[position]?.get(values[position]!)
      if (list === undefined) continue
      const before = count
      count = addThoseThatHold(list, values, found, before)
      if (before > 0 && count > before) isSorted = false
    }
    if (isSorted) return count
    const sorted = found.slice(0, count).sort((a, b) => a.order - b.order)
    for (let i = 0; i < count; i++) found[i] = sorted[i]!
    return count
  }

  /** The condition on whole values that the fewest rules share so far. */
  #mostSelective(conditions: readonly Condition[]): Condition | undefined {
    let best: Condition | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const condition of conditions) {
      if (condition.patterns.hasPrefixes) continue
      const lists = this.#byValue[condition.position]
      let shared = 0
      for (const text of condition.patterns.texts) shared = Math.max(shared, lists?.get(text)?.length ?? 0)
      if (shared >= fewest) continue
      best = condition
      fewest = shared
    }
    return best
  }
}

function addThoseThatHold<R>(rules: readonly KeySetRule<R>[], values: readonly string[], found: KeySetRule<R>[], from: number): number {
  let count = from
  for (let i = 0; i < rules.length; i++) {
    const rule = rules[i]!
    if (holds(rule.conditions, values)) found[count++] = rule
  }
  return count
}

function holds(conditions: readonly Condition[], values: readonly string[]): boolean {
  for (let i = 0; i < conditions.length; i++) {
    const { position, patterns } = conditions[i]!
    if (!patterns.cover(values[position]!)) return false
  }
  return true
}
