import type { CallerDigest } from '../engine/decide-options.ts'
import { isCredential } from '../policy/descriptor-key.ts'
import type { PlanRule } from '../policy/plan.ts'
import { HalfSipHash, type HashState, SubjectWords } from '../store/subject.ts'

/** A rule by name, which may outlive its plan. */
export interface RuleName {
  readonly policy: string
  readonly rule: string
  readonly limitKeys: readonly string[]
}

/** A rule with what is needed to identify and show its callers. */
export interface KnownRule extends RuleName {
  /** Whether the values of each limit key are credentials. */
  readonly credentials: readonly boolean[]
  /** Hash state of the rule's name, from which the hash of each caller continues. */
  readonly prefix: HashState
}

/** Identifies callers of rules, in all threads alike, by 64 bits of a keyed hash of the rule's name and the caller's values. */
export class CallerIds {
  /** Both halves of the id of the caller identified last. */
  low = 0
  high = 0
  readonly #hash: HalfSipHash
  readonly #subject = new SubjectWords()
  readonly #known = new WeakMap<PlanRule, KnownRule>()
  /** Cache of the last rule: consecutive calls mostly have the same one, and a comparison is cheaper than the map. */
  #lastRule: PlanRule | undefined
  #last: KnownRule | undefined

  constructor(hashKey: readonly [number, number]) {
    this.#hash = new HalfSipHash(hashKey)
  }

  /** Leaves the caller's id in `low` and `high`. Its values begin at index `from`. */
  identify(rule: PlanRule, values: readonly string[], from: number): KnownRule {
    const known = rule === this.#lastRule ? this.#last! : this.#recall(rule)
    const subject = this.#subject
    subject.clear()
    for (let k = 0; k < known.limitKeys.length; k++) subject.addText(values[from + k]!)
    this.#hash.digest(subject.words, subject.length, known.prefix)
    this.low = this.#hash.low
    this.high = this.#hash.high
    return known
  }

  #recall(rule: PlanRule): KnownRule {
    const known = this.#known.get(rule) ?? this.#learn(rule)
    this.#lastRule = rule
    this.#last = known
    return known
  }

  #learn(plan: PlanRule): KnownRule {
    const { limitKeys } = plan
    const [policy, rule] = [plan.policy.id, plan.name]
    const subject = this.#subject
    subject.clear()
    subject.addIdentity(['top', policy, rule, ...limitKeys])
    const prefix = this.#hash.absorb(subject.words, subject.length)
    const known = { policy, rule, limitKeys, credentials: limitKeys.map(isCredential), prefix }
    this.#known.set(plan, known)
    return known
  }
}

/** A caller of a rule, as operators may see it. */
export interface ShownCaller {
  readonly policy: string
  readonly rule: string
  /** Values by limit key of the rule. */
  readonly values: Readonly<Record<string, string>>
}

/** The longest value, including the mark of a cut. */
const MAX_CHARACTERS = 128
/**
 * UTF-16 code units for the values of one caller: enough for 32 keys, the most that a rule can have, each with its length and the 16 digits of a digest.
 */
const ROOM = 576
const CUT = 0x2026 // …

/** The values of callers in sequence; those of caller i begin at `starts[i]`. Each value is its length followed by as many UTF-16 code units. */
export interface PackedTexts {
  readonly starts: Uint32Array
  readonly units: Uint16Array
}

/** The values of callers as operators may see them, in memory of a fixed size: credentials are digests, and long values are cut. */
export class ValueTexts {
  /** Code units are copied, because a substring would keep the whole original string in memory. */
  readonly #units: Uint16Array
  readonly #lengths: Uint16Array
  readonly #callerDigest: CallerDigest

  constructor(slots: number, callerDigest: CallerDigest) {
    this.#units = new Uint16Array(slots * ROOM)
    this.#lengths = new Uint16Array(slots)
    this.#callerDigest = callerDigest
  }

  /** Writes the values of a caller, which begin at index `from`. */
  write(slot: number, { credentials }: KnownRule, values: readonly string[], from: number): void {
    const units = this.#units
    const most = Math.min(MAX_CHARACTERS, Math.floor(ROOM / credentials.length) - 1)
    let at = slot * ROOM
    for (let k = 0; k < credentials.length; k++) {
      const value = values[from + k]!
      const text = credentials[k] ? this.#callerDigest([value]) : value
      const isCut = text.length > most
      const kept = isCut ? most - 1 : text.length
      units[at++] = isCut ? most : kept
      for (let i = 0; i < kept; i++) units[at++] = text.charCodeAt(i)
      if (isCut) units[at++] = CUT
    }
    this.#lengths[slot] = at - slot * ROOM
  }

  /** Returns a copy of these slots, in their order. */
  packed(slots: readonly number[]): PackedTexts {
    const units = new Uint16Array(slots.reduce((sum, slot) => sum + this.#lengths[slot]!, 0))
    const starts = new Uint32Array(slots.length)
    let at = 0
    for (const [i, slot] of slots.entries()) {
      const length = this.#lengths[slot]!
      units.set(this.#units.subarray(slot * ROOM, slot * ROOM + length), at)
      starts[i] = at
      at += length
    }
    return { starts, units }
  }

  clear(): void {
    this.#units.fill(0)
  }
}

/** Returns the values of a caller by limit key. */
export function valuesAt({ starts, units }: PackedTexts, caller: number, limitKeys: readonly string[]): Record<string, string> {
  let at = starts[caller]!
  const entries = limitKeys.map((key): [string, string] => {
    const from = at + 1
    at = from + units[at]!
    return [key, String.fromCharCode(...units.subarray(from, at))]
  })
  return Object.fromEntries(entries)
}
