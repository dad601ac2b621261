import { ALGORITHMS } from '../../limiter/algorithms/algorithms.ts'
import type { CounterRecord } from '../../limiter/limit.ts'

// The memory layout of a shared table, see `shared-table.ts`.

/** Returns how many bytes a table with this many slots needs. */
export function tableBytesFor(slots: number): number {
  return SETS_AT + Math.ceil(slots / WAYS) * SET_BYTES
}

export function newTableBuffer(bytes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(Math.floor(bytes / 8) * 8)
}

export function setCountIn(bytes: number): number {
  return Math.floor((bytes - SETS_AT) / SET_BYTES)
}

/** Returns how many counters fit into this much memory. */
export function slotCountIn(bytes: number): number {
  return setCountIn(bytes) * WAYS
}

/** Returns a slot's index in its set. */
export function wayOf(slot: number): number {
  return slot & (WAYS - 1)
}

export const MAX_OWNERS = 256
/** Slots in a set. */
export const WAYS = 32
const LOCK_BYTES = 8
const RECORD_BYTES = 32
const SET_BYTES = LOCK_BYTES + WAYS * 2 + WAYS * RECORD_BYTES

// The buffer begins with a lane per owner, written only by that owner or by the thread that cleans up after it: [slot being written + 1,
// changes of records] as words, then occupied and evictions as doubles.
const LANE_BYTES = 64
export const LANE_WRITING = 0
export const LANE_CHANGES = 1
export const LANE_OCCUPIED = 1
export const LANE_EVICTIONS = 2
const LANES_BYTES = MAX_OWNERS * LANE_BYTES
/** Index of the double that holds the moment of the last reset. No thread is owner 0, so its lane is free for this. */
export const LAST_RESET = 0

/** The highest number of a rule that fits into a record. Numbers start at 1; 0 means no rule, or one that is not known. */
export const MAX_RULES = 2047
// The lanes are followed by a word for each rule number, which is a hash of the rule that has it.
const RULES_BYTES = (MAX_RULES + 1) * 4
const SETS_AT = LANES_BYTES + RULES_BYTES

export const MIN_TABLE_BYTES = SETS_AT + SET_BYTES

export function laneWord(owner: number): number {
  return owner * (LANE_BYTES / 4)
}

export function ruleWord(rule: number): number {
  return LANES_BYTES / 4 + rule
}

export function setWord(set: number): number {
  return SETS_AT / 4 + set * (SET_BYTES / 4)
}

export function firstMark(set: number): number {
  return (SETS_AT + LOCK_BYTES) / 2 + set * (SET_BYTES / 2)
}

// The first word of a record holds the half of the tag's low word that is not in the mark, a bit that is set if the other half is 0, the
// rule's number, and the kind in four bits.
export const NO_UPPER_BITS = 0x8000
export const TAG_BITS = ~0x7fff
export const RULE_BITS = 0x7ff0
const RULE_SHIFT = 4

/** Returns the upper half of a tag's low word. 1 stands for 0, which marks an empty slot; the record's first word tells 0 and 1 apart. */
export function markOf(low: number): number {
  return low >>> 16 || 1
}

export function tagWord(low: number): number {
  return (low << 16) | (low >>> 16 === 0 ? NO_UPPER_BITS : 0)
}

export function ruleBits(rule: number): number {
  return rule << RULE_SHIFT
}

export function ruleIn(word: number): number {
  return (word & RULE_BITS) >>> RULE_SHIFT
}

/** Packs a kind into four bits: kinds are below 8, or from 128 to 135. */
export function kindBits(kind: number): number {
  return (kind & 7) | ((kind >>> 4) & 8)
}

export function kindIn(word: number): number {
  return (word & 7) | ((word & 8) << 4)
}

/** Returns where a record begins, in 32-bit words. The number is even, so that doubles in the record are aligned. */
export function recordWord(slot: number): number {
  const set = (slot / WAYS) | 0
  return (SETS_AT + LOCK_BYTES + WAYS * 2) / 4 + set * (SET_BYTES / 4) + wayOf(slot) * (RECORD_BYTES / 4)
}

/*
 * Kinds of table records that are not limits: leased tokens, notes on a key's leases, and resets. Like the kinds of limits
 * (`limiter/limit.ts`), a number always stands for the same kind. A record has room for kinds up to 135.
 */
export const LEASE_BLOCK = 128
export const LEASE_NOTE = 129
export const LEASE_USE = 130
export const RESET = 131

/**
 * Returns how long a record still means something, judged without its rule; 0 means that it can be forgotten without loss. Leased tokens
 * and resets are worth more than any counter: a lost lease takes tokens from the fleet, and a lost reset cannot be recovered.
 */
export function worthMs(record: CounterRecord, nowMs: number, wallMs: number): number {
  const algorithm = ALGORITHMS[record.kind]
  if (algorithm !== undefined) return algorithm.worthMs(record, nowMs, wallMs)
  if (record.kind === RESET) return wallMs >= record.at ? 0 : Number.POSITIVE_INFINITY
  // Leased tokens expire at `at`. Records of lease notes and lease use can be lost at any time.
  return record.kind !== LEASE_BLOCK || nowMs >= record.at || record.level <= 0 ? 0 : Number.MAX_VALUE
}
