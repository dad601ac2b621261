import type { Clock } from '../clock.ts'
import type { Usage } from '../costs/cost.ts'
import { settledBy } from '../costs/settling-record.ts'
import type { CallerDigest } from '../engine/caller-digest.ts'
import type { Engine } from '../engine/engine.ts'
import type { LocatedCharge } from '../engine/located-charge.ts'
import type { Reservation } from '../engine/reservation.ts'
import { MemoryMarks } from './memory-marks.ts'
import { decodeContent, encodeContent, MAX_CHARGES, type ReservationContent } from './reservation-content.ts'
import type { ReservationMemory } from './reservation-memory.ts'
import type { ReservationName } from './reservation-name.ts'
import { ReservationNumbers } from './reservation-numbers.ts'
import type { MarkOutcome, SettledMarks } from './settled-marks.ts'
import { openToken, sealToken } from './token-seal.ts'

export interface ReservationsParts {
  readonly engine: Engine
  readonly memory: ReservationMemory
  /** Of the thread. */
  readonly worker: number
  readonly clock: Clock
  /** Names a caller in warnings, without its values. */
  readonly callerDigest: CallerDigest
  /** Marks that a fleet shares; undefined: those of this process count. */
  readonly sharedMarks: SettledMarks | undefined
  readonly listener: ReservationsListener
}

interface ReservationsListener {
  /** Whether a token was issued for what a request took, or why not: then the reservation stands. */
  onIssued(outcome: IssueOutcome): void
}

/** 'too_large': more rules than a token can list. 'numbers_exhausted': more reservations than a worker can number in an hour. */
export type IssueOutcome = 'issued' | 'too_large' | 'numbers_exhausted'

/** 'malformed': not a token of ours. 'expired': it can no longer be told whether it was settled. */
export type SettleOutcome = 'settled' | 'malformed' | 'expired' | 'already' | 'unavailable' | 'unknown'

/** How long a reservation can be settled. */
const LIFETIME_MS = 2 * 60 * 60 * 1000

/** Reservations that gateways settle: each is a token that says what was taken and where, so that nothing has to be remembered of it but whether it is settled. */
export class Reservations {
  readonly #parts: ReservationsParts
  readonly #numbers: ReservationNumbers
  readonly #own: MemoryMarks

  constructor(parts: ReservationsParts) {
    this.#parts = parts
    this.#numbers = new ReservationNumbers(parts.memory.numbers, parts.worker)
    this.#own = new MemoryMarks(parts.memory)
  }

  /** The token of what was taken. Undefined where nothing was, or where it cannot be issued. */
  issue(reservation: Reservation): string | undefined {
    const { engine, memory, callerDigest, listener } = this.#parts
    const charges = engine.locate(reservation, callerDigest)
    if (charges.length === 0) return undefined
    const issued = this.#issue(charges, memory.instance)
    listener.onIssued(typeof issued === 'string' ? 'issued' : issued.problem)
    return typeof issued === 'string' ? issued : undefined
  }

  /** Corrects what was taken to what was used, once. Holds are released. */
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
   * Renews what is in flight. The token is used up, and the new one stands for all that it stood for; it lives as long as a fresh one. Where
   * nothing is in flight, it is the same.
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
    // Redis may have lost its data since, or may be new here. Own counts are not lost with it, and neither are own marks.
    if (sharedMarks !== undefined && outcome === 'marked') return this.#own.mark(name, issuedMs) === 'already' ? 'already' : 'marked'
    return outcome === 'lost' ? 'expired' : outcome
  }

  /** Who counts what was taken, besides the fleet. */
  #takerOf({ name, issuedMs, taker }: OpenedReservation): string | undefined {
    const { instance } = this.#parts.memory
    return name.instance === instance && taker === instance && !this.#own.isCounted(name, issuedMs) ? undefined : taker
  }
}

interface OpenedReservation extends ReservationContent {
  readonly name: ReservationName
}
