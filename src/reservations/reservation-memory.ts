import { hkdfSync, randomBytes } from 'node:crypto'
import { EarlierRuns, encodeBlock, isKeptHour, newEarlierBuffer } from './earlier-runs.ts'
import { newNumbersBuffer, ReservationNumbers } from './reservation-numbers.ts'

/** What all threads of a process know of its reservations. */
export interface ReservationMemory {
  /** Seals tokens. */
  readonly key: Uint8Array
  /** What the state file keeps: the instance's id and a key of its own. */
  readonly identity: Uint8Array
  /** Of this instance, 16 hex digits. */
  readonly instance: string
  /** Of this process, 16 hex digits. */
  readonly run: string
  readonly numbers: SharedArrayBuffer
  /** What earlier processes issued. */
  readonly earlier: SharedArrayBuffer
}

/** What a state file keeps of reservations. */
export interface SavedReservations {
  /** The instance's id, then its key. */
  readonly identity: Buffer | undefined
  readonly blocks: readonly Buffer[]
}

const ID_BYTES = 8
const KEY_BYTES = 32
const IDENTITY_BYTES = ID_BYTES + KEY_BYTES

export interface MemoryOptions {
  readonly workers: number
  /** Shared by a fleet; else the key is kept in the state file. */
  readonly secret: string | undefined
  readonly saved: SavedReservations | undefined
  readonly wallMs: number
}

export function newReservationMemory({ workers, secret, saved, wallMs }: MemoryOptions): ReservationMemory {
  const identity = saved?.identity?.length === IDENTITY_BYTES ? saved.identity : randomBytes(IDENTITY_BYTES)
  return {
    // Copies: each thread gets the whole memory that a view is of.
    identity: Uint8Array.from(identity),
    key: secret === undefined ? Uint8Array.from(identity.subarray(ID_BYTES)) : keyFrom(secret),
    instance: identity.toString('hex', 0, ID_BYTES),
    run: randomBytes(ID_BYTES).toString('hex'),
    numbers: newNumbersBuffer(workers),
    earlier: newEarlierBuffer(saved?.blocks ?? [], wallMs),
  }
}

/** What is to be saved now. Called after the counters were copied: a settlement in between is then lost, and not done twice. */
export function savedReservations({ identity, run, numbers, earlier }: ReservationMemory, savedMs: number): SavedReservations {
  const blocks = [...new EarlierRuns(earlier).saved(savedMs)]
  for (const issued of new ReservationNumbers(numbers, 0).issued()) {
    if (isKeptHour(issued.hour, savedMs)) blocks.push(encodeBlock(run, issued, savedMs))
  }
  return { identity: Buffer.from(identity), blocks }
}

function keyFrom(secret: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', 'edge reservations', KEY_BYTES))
}
