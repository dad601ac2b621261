import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { ServerConfig } from '../config/config.ts'
import { newReservationMemory, type ReservationMemory, savedReservations } from '../reservations/reservation-memory.ts'
import { RESERVATION_IDENTITY, SETTLED_RESERVATIONS } from '../store/state/state-format.ts'
import type { Counters } from './open-counters.ts'

/** What the threads share of reservations that gateways settle, with what was saved of them. From now on it is saved with the counters. */
export function openReservations(
  config: ServerConfig,
  { reservations: saved, kept }: Counters,
  clock: Clock,
  logger: Logger,
): ReservationMemory {
  const isDecisionService = config.mode === 'decision_service'
  const memory = newReservationMemory({
    workers: isDecisionService ? config.workers : 0,
    secret: config.reservationSecret,
    saved,
    wallMs: clock.wallMs(),
  })
  kept?.file.saveWith(({ wallMs }) => sectionsOf(memory, wallMs))
  if (isDecisionService && config.redis !== undefined && config.reservationSecret === undefined) {
    logger.info(
      { event: 'reservations_not_shared' },
      'reservations can be settled only at the instance that issued them; set EDGE_RESERVATION_SECRET to the same value on all instances',
    )
  }
  return memory
}

function* sectionsOf(memory: ReservationMemory, savedMs: number): Generator<readonly [number, Buffer]> {
  const { identity, blocks } = savedReservations(memory, savedMs)
  yield [RESERVATION_IDENTITY, identity!]
  for (const block of blocks) yield [SETTLED_RESERVATIONS, block]
}
