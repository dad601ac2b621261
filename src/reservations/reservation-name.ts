import { ByteReader, ByteWriter } from './token-bytes.ts'

/** What tells a reservation from all others. */
export interface ReservationName {
  /** Of the instance that took, 16 hex digits: the same over a restart with a state file. */
  readonly instance: string
  /** Of its process, 16 hex digits. */
  readonly run: string
  /** Numbers are given out by a worker, for an hour each. After a clock that was set back, its hours are ahead of the clock's. */
  readonly worker: number
  readonly hour: number
  readonly number: number
}

const ID_DIGITS = 16

export const NAME_BYTES = 25

export function encodeName({ instance, run, worker, hour, number }: ReservationName): Buffer {
  const out = new ByteWriter()
  out.hex(instance)
  out.hex(run)
  out.byte(worker)
  out.word(hour)
  out.word(number)
  return out.bytes
}

/** There are NAME_BYTES. */
export function decodeName(bytes: Buffer): ReservationName {
  const reader = new ByteReader(bytes)
  return {
    instance: reader.hex(ID_DIGITS),
    run: reader.hex(ID_DIGITS),
    worker: reader.byte(),
    hour: reader.word(),
    number: reader.word(),
  }
}
