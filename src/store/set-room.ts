import { WAYS } from './table-layout.ts'

/** The rule of records that are the store's own, and of those that were restored and not written since. */
export const NO_RULE = 0
/** A rule that has more than half of a set gives up records for one that has fewer than this, whatever they are worth. */
const LEAST_ROOM = 4

/**
 * Chooses whose slot a new record gets in a set that is full of live ones. Whoever can make up keys decides how many records a rule has,
 * so rules make room for themselves. A rule that has less than its share of the set, which is the slots divided by the rules there, takes
 * from those that have more than theirs: the record that means nothing soonest, if the new one means something for longer. Else it replaces
 * its own least one. If it has none, the new record gets no slot.
 *
 * So a rule within its share loses nothing to the keys of others. And a flood that has most of a set leaves room for the others, however
 * long its records last: if they were refused for it, whoever can make up the keys of one rule could switch the others off.
 */
export class SetRoom {
  /** By way. The caller fills them in. */
  readonly worthsMs = new Float64Array(WAYS)
  readonly rules = new Int32Array(WAYS)
  /** By way: the first way with a record of the same rule; for that one, how many there are. */
  readonly #firsts = new Int32Array(WAYS)
  readonly #counts = new Int32Array(WAYS)

  /** The way whose record is evicted for a new one, or -1. `inUse` has a bit for each that must stay. What is worth nothing evicts nothing. */
  victimFor(rule: number, worthMs: number, inUse: number): number {
    if (worthMs === 0) return -1
    let ruleCount = this.#countRules()
    let own = 0
    if (rule !== NO_RULE) for (let way = 0; way < WAYS; way++) if (this.rules[way] === rule) own++
    if (own === 0) ruleCount++
    let ownLeast = -1
    let otherLeast = -1
    let floodLeast = -1
    for (let way = 0; way < WAYS; way++) {
      if (((inUse >>> way) & 1) !== 0) continue
      const count = this.#countAt(way)
      if (own > 0 && this.rules[way] === rule) ownLeast = this.#lesser(ownLeast, way)
      else if (count * ruleCount > WAYS) otherLeast = this.#lesser(otherLeast, way)
      if (count > WAYS / 2) floodLeast = this.#lesser(floodLeast, way)
    }
    if (own * ruleCount >= WAYS || otherLeast < 0) return ownLeast
    if (this.worthsMs[otherLeast]! < worthMs) return otherLeast
    const isCrowdedOut = floodLeast >= 0 && own < LEAST_ROOM && rule !== NO_RULE
    return isCrowdedOut ? floodLeast : ownLeast
  }

  /** Counts the rules that have records in the set, and the records of each. */
  #countRules(): number {
    const { rules } = this
    let count = 0
    for (let way = 0; way < WAYS; way++) {
      let first = 0
      while (rules[first] !== rules[way]) first++
      this.#firsts[way] = first
      if (first === way) {
        this.#counts[way] = 0
        count++
      }
      this.#counts[first]!++
    }
    return count
  }

  /** How many records the rule has whose record is there. */
  #countAt(way: number): number {
    return this.#counts[this.#firsts[way]!]!
  }

  #lesser(least: number, way: number): number {
    return least < 0 || this.worthsMs[way]! < this.worthsMs[least]! ? way : least
  }
}
