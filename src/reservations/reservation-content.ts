import type { SettlingRecord } from '../costs/cost.ts'
import { isSettlingKind } from '../costs/settling-record.ts'
import type { LocatedCharge, LocatedCounter } from '../engine/reservation.ts'
import { type LimitRecord, limitFrom, limitRecord } from '../limiter/limit.ts'
import type { Taken, TakenFrom } from '../store/charges.ts'

/** The sealed part of a token. */
export interface ReservationContent {
  /** Wall time of the issuing instance. */
  readonly issuedMs: number
  /** Id, 16 hex digits, of the instance that took, if its own counters include the amounts too. Undefined once they no longer do. */
  readonly taker: string | undefined
  readonly charges: readonly LocatedCharge[]
}

export function encodeContent({ issuedMs, taker, charges }: ReservationContent): Buffer {
  const out = new ByteWriter()
  out.double(issuedMs)
  out.byte(taker === undefined ? 0 : 1)
  if (taker !== undefined) out.hex(taker)
  out.byte(charges.length)
  for (const charge of charges) writeCharge(out, charge)
  return out.bytes
}

/** Returns undefined for content that this version cannot read, which a newer version must have issued. */
export function decodeContent(bytes: Buffer): ReservationContent | undefined {
  try {
    const reader = new ByteReader(bytes)
    const issuedMs = reader.double()
    const taker = reader.byte() === 0 ? undefined : reader.hex(TAKER_DIGITS)
    const charges = Array.from({ length: reader.byte() }, () => readCharge(reader))
    return reader.isAtEnd ? { issuedMs, taker, charges } : undefined
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** The most charges that a token can list: their number is one byte. */
export const MAX_CHARGES = 255

const FROM: readonly TakenFrom[] = ['none', 'local', 'shared']
const TAKER_DIGITS = 16
const IDENTITY_DIGITS = 16
const CALLER_DIGITS = 16
const HAS_CALLER = 1
const HAS_SUBJECT = 2
const TAG_DIGITS = 16
const KEY_DIGITS = 32

function writeCharge(out: ByteWriter, { settling, isHold, amount, taken, counters, caller, subject }: LocatedCharge): void {
  out.byte(settling.kind)
  out.doubles(settling.numbers)
  out.byte(isHold ? 1 : 0)
  out.double(amount)
  out.double(taken.wallMs)
  out.double(taken.momentMs)
  out.byte(FROM.indexOf(taken.from))
  out.byte(counters.length)
  for (const counter of counters) writeCounter(out, counter)
  out.byte((caller === undefined ? 0 : HAS_CALLER) | (subject === undefined ? 0 : HAS_SUBJECT))
  if (caller !== undefined) out.hex(caller)
  if (subject !== undefined) out.hex(subject)
}

function readCharge(reader: ByteReader): LocatedCharge {
  const settling: SettlingRecord = { kind: reader.byte(), numbers: reader.doubles() }
  if (!isSettlingKind(settling.kind)) throw new RangeError('an unknown way to settle')
  const isHold = reader.byte() === 1
  const amount = reader.double()
  const taken: Taken = { wallMs: reader.double(), momentMs: reader.double(), from: FROM[reader.byte()] ?? 'none' }
  const counters = Array.from({ length: reader.byte() }, () => readCounter(reader))
  const names = reader.byte()
  if (names > (HAS_CALLER | HAS_SUBJECT)) throw new RangeError('unknown names')
  const caller = names & HAS_CALLER ? reader.hex(CALLER_DIGITS) : undefined
  const subject = names & HAS_SUBJECT ? reader.hex(CALLER_DIGITS) : undefined
  return { settling, isHold, amount, taken, counters, caller, subject }
}

function writeCounter(out: ByteWriter, { locator, limit }: LocatedCounter): void {
  out.hex(locator.identity)
  out.hex(locator.tag)
  out.byte(locator.key === undefined ? 0 : 1)
  if (locator.key !== undefined) out.hex(locator.key)
  const { kind, numbers, texts } = limitRecord(limit)
  out.byte(kind)
  out.doubles(numbers)
  out.byte(texts.length)
  for (const text of texts) out.text(text)
}

function readCounter(reader: ByteReader): LocatedCounter {
  const identity = reader.hex(IDENTITY_DIGITS)
  const tag = reader.hex(TAG_DIGITS)
  const key = reader.byte() === 0 ? undefined : reader.hex(KEY_DIGITS)
  const record: LimitRecord = {
    kind: reader.byte(),
    numbers: reader.doubles(),
    texts: Array.from({ length: reader.byte() }, () => reader.text()),
  }
  const limit = limitFrom(record)
  if (limit === undefined) throw new RangeError('an unknown limit')
  return { locator: { identity, tag, key }, limit }
}

/** Identifies a reservation uniquely. */
export interface ReservationName {
  /** Id of the instance that took, 16 hex digits. It survives a restart if there is a state file. */
  readonly instance: string
  /** Id of its process, 16 hex digits. */
  readonly run: string
  /**
   * The worker that issued the number. Each worker numbers its reservations by the hour; after the clock was set back, its hours run ahead of the clock.
   */
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

/** Reads exactly NAME_BYTES bytes. */
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

/** Writes numbers and strings in sequence, little-endian, into a buffer that grows as needed. */
class ByteWriter {
  #bytes = Buffer.alloc(512)
  #length = 0

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  byte(value: number): void {
    this.#room(1)
    this.#length = this.#bytes.writeUInt8(value, this.#length)
  }

  word(value: number): void {
    this.#room(4)
    this.#length = this.#bytes.writeUInt32LE(value, this.#length)
  }

  double(value: number): void {
    this.#room(8)
    this.#length = this.#bytes.writeDoubleLE(value, this.#length)
  }

  doubles(values: readonly number[]): void {
    this.byte(values.length)
    for (const value of values) this.double(value)
  }

  /** Takes one byte for each pair of digits. */
  hex(digits: string): void {
    this.#room(digits.length / 2)
    this.#length += this.#bytes.write(digits, this.#length, 'hex')
  }

  /** Takes at most 255 bytes of UTF-8. */
  text(value: string): void {
    const length = Buffer.byteLength(value)
    this.byte(length)
    this.#room(length)
    this.#length += this.#bytes.write(value, this.#length)
  }

  #room(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    const larger = Buffer.alloc((this.#length + bytes) * 2)
    this.#bytes.copy(larger)
    this.#bytes = larger
  }
}

/** Reads what a ByteWriter wrote. Throws a RangeError if too few bytes are left. */
class ByteReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  byte(): number {
    return this.#take(1).readUInt8()
  }

  word(): number {
    return this.#take(4).readUInt32LE()
  }

  double(): number {
    return this.#take(8).readDoubleLE()
  }

  doubles(): number[] {
    return Array.from({ length: this.byte() }, () => this.double())
  }

  hex(digits: number): string {
    return this.#take(digits / 2).toString('hex')
  }

  text(): string {
    return this.#take(this.byte()).toString()
  }

  #take(bytes: number): Buffer {
    const from = this.#at
    if (from + bytes > this.#bytes.length) throw new RangeError('fewer bytes than expected')
    this.#at = from + bytes
    return this.#bytes.subarray(from, this.#at)
  }
}
