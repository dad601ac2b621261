// The memory layout of a shared table, see `shared-table.ts`.

/** The memory for this many slots. */
export function tableBytesFor(slots: number): number {
  return LANES_BYTES + Math.ceil(slots / WAYS) * SET_BYTES
}

export function newTableBuffer(bytes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(Math.floor(bytes / 8) * 8)
}

/** A slot's index in its set. */
export function wayOf(slot: number): number {
  return slot & (WAYS - 1)
}

export const MAX_OWNERS = 256
/** Slots in a set. */
export const WAYS = 32
const LOCK_BYTES = 8
const RECORD_BYTES = 32
export const SET_BYTES = LOCK_BYTES + WAYS * 2 + WAYS * RECORD_BYTES

// Before the sets, a lane per owner that no other thread writes: [slot being written + 1, spare], occupied, evictions
const LANE_BYTES = 64
export const LANE_WRITING = 0
export const LANE_OCCUPIED = 1
export const LANE_EVICTIONS = 2
export const LANES_BYTES = MAX_OWNERS * LANE_BYTES
/** Index of a double. No thread is owner 0, so its lane is free for this. */
export const LAST_RESET = 0

export const MIN_TABLE_BYTES = LANES_BYTES + SET_BYTES

export function laneWord(owner: number): number {
  return owner * (LANE_BYTES / 4)
}

export function setWord(set: number): number {
  return LANES_BYTES / 4 + set * (SET_BYTES / 4)
}

export function firstMark(set: number): number {
  return (LANES_BYTES + LOCK_BYTES) / 2 + set * (SET_BYTES / 2)
}

// The first word of a record: the part of the tag's low half that is not in the mark, and the kind.
export const KIND_BITS = 0xff
export const NO_UPPER_BITS = 0x8000
export const TAG_BITS = ~0x7fff

/** The upper half of a tag's low word. 1 stands for 0, which marks an empty slot; the record's first word distinguishes 0 and 1. */
export function markOf(low: number): number {
  return low >>> 16 || 1
}

export function tagWord(low: number): number {
  return (low << 16) | (low >>> 16 === 0 ? NO_UPPER_BITS : 0)
}

/** Where a record begins, in 32-bit words; an even number. */
export function recordWord(slot: number): number {
  const set = (slot / WAYS) | 0
  return (LANES_BYTES + LOCK_BYTES + WAYS * 2) / 4 + set * (SET_BYTES / 4) + wayOf(slot) * (RECORD_BYTES / 4)
}
