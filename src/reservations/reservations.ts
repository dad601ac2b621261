import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import type { Usage } from '../costs/cost.ts'
import { settledBy } from '../costs/settling-record.ts'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { Engine } from '../engine/engine.ts'
import type { LocatedCharge, Reservation } from '../engine/reservation.ts'
import type { Clock } from '../time/clock.ts'
import {
  decodeContent,
  decodeName,
  encodeContent,
  encodeName,
  MAX_CHARGES,
  NAME_BYTES,
  type ReservationContent,
  type ReservationName,
} from './reservation-content.ts'
import { EarlierRuns, type ReservationMemory, ReservationNumbers } from './reservation-numbers.ts'

export interface ReservationsParts {
  readonly engine: Engine
  readonly memory: ReservationMemory
  /** Number of this thread's worker. */
  readonly worker: number
  readonly clock: Clock
  /** Identifies a caller in warnings without its values. */
  readonly callerDigest: CallerDigest
  /** Marks that a fleet shares. Undefined means that only the marks of this process count. */
  readonly sharedMarks: SettledMarks | undefined
  readonly listener: ReservationsListener
}

interface ReservationsListener {
  /** Reports whether a token was issued for an allowed request. Without a token, the amounts taken stand. */
  onIssued(outcome: IssueOutcome): void
}

/** 'too_large': more charges than fit into a token. 'numbers_exhausted': more reservations than a worker can number in an hour. */
export type IssueOutcome = 'issued' | 'too_large' | 'numbers_exhausted'

/** 'malformed': not a token of ours. 'expired': too old, or it can no longer be determined whether it was settled. */
export type SettleOutcome = 'settled' | 'malformed' | 'expired' | 'already' | 'unavailable' | 'unknown'

/** How long after its issue a reservation can be settled. */
const LIFETIME_MS = 2 * 60 * 60 * 1000

/**
 * Reservations that gateways settle. Each is a token that says what was taken from which counters, so that the service only has to remember whether it was
 * settled.
 */
export class Reservations {
  readonly #parts: ReservationsParts
  readonly #numbers: ReservationNumbers
  readonly #own: MemoryMarks

  constructor(parts: ReservationsParts) {
    this.#parts = parts
    this.#numbers = new ReservationNumbers(parts.memory.numbers, parts.worker)
    this.#own = new MemoryMarks(parts.memory)
  }

  /** Returns a token for what was taken. Returns undefined if nothing was taken, or if no token can be issued. */
  issue(reservation: Reservation): string | undefined {
    const { engine, memory, callerDigest, listener } = this.#parts
    const charges = engine.locate(reservation, callerDigest)
    if (charges.length === 0) return undefined
    const issued = this.#issue(charges, memory.instance)
    listener.onIssued(typeof issued === 'string' ? 'issued' : issued.problem)
    return typeof issued === 'string' ? issued : undefined
  }

  /** Corrects what was taken to what was used, once, and releases holds. */
  async settle(token: string, usage: Usage): Promise<SettleOutcome> {
    const { engine } = this.#parts
    const opened = this.#open(token)
    if (typeof opened === 'string') return opened
    const { charges } = opened
    const outcome = await this.#mark(opened)
    if (outcome !== 'marked') return outcome
    const taker = this.#takerOf(opened)
    const settled = charges.map((charge) => engine.settleLocated(charge, settledBy(charge.settling, charge.amount, usage), taker))
    return (await Promise.all(settled)).every((isKnown) => isKnown) ? 'settled' : 'unknown'
  }

  /**
   * Renews the holds of a reservation. The token is used up; a new one with a full lifetime replaces it, including charges that are not holds. A token
   * without holds is returned unchanged.
   */
  async renew(token: string): Promise<{ readonly token: string } | Exclude<SettleOutcome, 'settled'>> {
    const { engine } = this.#parts
    const opened = this.#open(token)
    if (typeof opened === 'string') return opened
    const { charges } = opened
    if (!charges.some(({ isHold }) => isHold)) return { token }
    const outcome = await this.#mark(opened)
    if (outcome !== 'marked') return outcome
    const taker = this.#takerOf(opened)
    const renewed = charges.map(async (charge) => (charge.isHold ? { ...charge, taken: await engine.renewLocated(charge, taker) } : charge))
    const issued = this.#issue(await Promise.all(renewed), taker)
    return typeof issued === 'string' ? { token: issued } : 'unknown'
  }

  #issue(charges: readonly LocatedCharge[], taker: string | undefined): string | { readonly problem: Exclude<IssueOutcome, 'issued'> } {
    const { memory, worker, clock } = this.#parts
    if (charges.length > MAX_CHARGES) return { problem: 'too_large' }
    const issuedMs = clock.wallMs()
    const content = encodeContent({ issuedMs, taker, charges })
    const numbered = this.#numbers.next(issuedMs)
    if (numbered === undefined) return { problem: 'numbers_exhausted' }
    const { instance, run } = memory
    return sealToken(memory.key, { instance, run, worker, ...numbered }, content) ?? { problem: 'too_large' }
  }

  #open(token: string): OpenedReservation | 'malformed' | 'expired' {
    const opened = openToken(this.#parts.memory.key, token)
    const content = opened && decodeContent(opened.content)
    if (opened === undefined || content === undefined) return 'malformed'
    if (this.#parts.clock.wallMs() - content.issuedMs > LIFETIME_MS) return 'expired'
    return { name: opened.name, ...content }
  }

  async #mark({ name, issuedMs }: OpenedReservation): Promise<'marked' | Exclude<SettleOutcome, 'settled'>> {
    const { sharedMarks } = this.#parts
    const outcome: MarkOutcome = await (sharedMarks ?? this.#own).mark(name, issuedMs)
    // Redis may have lost its marks or been replaced since. The counters of this process survive that, and so do its marks, which are therefore checked
    // too.
    if (sharedMarks !== undefined && outcome === 'marked') return this.#own.mark(name, issuedMs) === 'already' ? 'already' : 'marked'
    return outcome === 'lost' ? 'expired' : outcome
  }

  /** Returns the instance whose own counters include what was taken, besides those in Redis; undefined if this instance has lost them. */
  #takerOf({ name, issuedMs, taker }: OpenedReservation): string | undefined {
    const { instance } = this.#parts.memory
    return name.instance === instance && taker === instance && !this.#own.isCounted(name, issuedMs) ? undefined : taker
  }
}

interface OpenedReservation extends ReservationContent {
  readonly name: ReservationName
}

/** Changes with the layout of tokens. */
const VERSION = 1
const HEAD_BYTES = 1 + NAME_BYTES
const TAG_BYTES = 16
const CIPHER = 'aes-256-gcm'
/** A constant nonce is safe because each token has its own key, which seals nothing else. */
const NONCE = Buffer.alloc(12)

/** Many gateways limit the size of header fields, so a token stays below 4 KiB. */
const MAX_TOKEN_BYTES = 3000
const MAX_TOKEN_CHARACTERS = Math.ceil((MAX_TOKEN_BYTES * 4) / 3)

/**
 * Seals a token: version and name in clear text, then the encrypted content, authenticated together with them. The key is derived from the name, which is
 * never used twice. The content is encrypted because gateways may pass the token on, and nobody may learn from it who is limited how.
 *
 * Returns undefined if the token would be too large.
 */
export function sealToken(key: Uint8Array, name: ReservationName, content: Buffer): string | undefined {
  if (HEAD_BYTES + content.length + TAG_BYTES > MAX_TOKEN_BYTES) return undefined
  const head = Buffer.concat([Buffer.of(VERSION), encodeName(name)])
  const cipher = createCipheriv(CIPHER, keyOf(key, head), NONCE).setAAD(head)
  return Buffer.concat([head, cipher.update(content), cipher.final(), cipher.getAuthTag()]).toString('base64url')
}

/** Returns undefined if the token was not sealed with this key or has been altered. */
export function openToken(key: Uint8Array, token: string): { readonly name: ReservationName; readonly content: Buffer } | undefined {
  if (token.length > MAX_TOKEN_CHARACTERS) return undefined
  const bytes = Buffer.from(token, 'base64url')
  // Only the canonical base64url spelling is accepted, so that a reservation has exactly one token.
  if (bytes.length < HEAD_BYTES + TAG_BYTES || bytes[0] !== VERSION || bytes.toString('base64url') !== token) return undefined
  const head = bytes.subarray(0, HEAD_BYTES)
  const decipher = createDecipheriv(CIPHER, keyOf(key, head), NONCE, { authTagLength: TAG_BYTES })
  decipher.setAAD(head).setAuthTag(bytes.subarray(bytes.length - TAG_BYTES))
  const content = decipher.update(bytes.subarray(HEAD_BYTES, bytes.length - TAG_BYTES))
  try {
    // Throws unless the tag matches, which is compared in constant time.
    decipher.final()
  } catch {
    return undefined
  }
  return { name: decodeName(head.subarray(1)), content }
}

function keyOf(key: Uint8Array, head: Buffer): Buffer {
  return createHmac('sha256', key).update(head).digest()
}

/** Every error code of a settlement that was not done, with its status and the sentence that `docs/reasons.md` has for it. */
export const SETTLE_ERRORS = {
  bad_settlement: { status: 400, meaning: 'The body is not a settlement; the message says what was expected.' },
  settlement_too_large: { status: 413, meaning: 'The body is larger than 64 KiB.' },
  unsupported_media_type: { status: 415, meaning: 'The body is compressed (Content-Encoding).' },
  bad_reservation: { status: 400, meaning: 'The token was not issued by edge, was changed, or was issued with another secret.' },
  already_settled: { status: 409, meaning: 'The reservation was settled or renewed before. Nothing was changed.' },
  expired_reservation: {
    status: 410,
    meaning:
      'The reservation is older than two hours, is from an instance that shares no Redis with this one, or was lost in a crash. It stays charged.',
  },
  store_unavailable: { status: 503, meaning: 'Redis is unavailable. Nothing was changed: try again.' },
  settlement_unknown: { status: 503, meaning: 'It is unknown whether the call took effect. A retry may get already_settled.' },
  internal_error: { status: 500, meaning: 'The service failed, and it is unknown whether the call took effect; the log has the cause.' },
} as const satisfies Record<string, { status: number; meaning: string }>

export type SettleError = keyof typeof SETTLE_ERRORS

/**
 * 'marked': it was not settled before and counts as settled from now on. 'lost': it can no longer be determined whether it was settled. 'unavailable': the
 * store cannot be reached and nothing was marked. 'unknown': it may have been marked.
 */
export type MarkOutcome = 'marked' | 'already' | 'lost' | 'unavailable' | 'unknown'

/** Records which reservations are settled. Each can be marked only once. */
export interface SettledMarks {
  mark(name: ReservationName, issuedMs: number): MarkOutcome | Promise<MarkOutcome>
}

/** Marks in the memory that the threads of this process share. Reservations of other instances are 'lost' to it. */
class MemoryMarks implements SettledMarks {
  readonly #memory: ReservationMemory
  readonly #numbers: ReservationNumbers
  readonly #earlier: EarlierRuns

  constructor(memory: ReservationMemory) {
    this.#memory = memory
    this.#numbers = new ReservationNumbers(memory.numbers, 0)
    this.#earlier = new EarlierRuns(memory.earlier)
  }

  mark(name: ReservationName, issuedMs: number): 'marked' | 'already' | 'lost' {
    if (!this.isCounted(name, issuedMs)) return 'lost'
    const { run, worker, hour, number } = name
    return run === this.#memory.run ? this.#numbers.mark(worker, hour, number) : this.#earlier.mark(run, worker, hour, number)
  }

  /** Whether this process's counters include what was taken. They do not if another instance took it, or if a crash lost it before it was saved. */
  isCounted({ instance, run, worker, hour }: ReservationName, issuedMs: number): boolean {
    if (instance !== this.#memory.instance) return false
    return run === this.#memory.run || issuedMs <= (this.#earlier.savedMs(run, worker, hour) ?? Number.NEGATIVE_INFINITY)
  }
}
