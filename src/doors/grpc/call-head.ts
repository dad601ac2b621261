import { failed, type GrpcMethod, type GrpcReply, INTERNAL, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED } from './grpc-method.ts'

/** The header fields of a call. An absent field is ''. A repeated timeout or encoding contains `, `; a repeated content type is the first one. */
export interface CallHead {
  readonly method: string
  readonly path: string
  readonly contentType: string
  readonly timeout: string
  readonly encoding: string
}

/** Reply to a call that reaches no method. Clients that do not speak gRPC see only the HTTP status. */
export interface CallRefusal {
  readonly httpStatus: number
  readonly reply: GrpcReply
}

const NOT_POST: CallRefusal = { httpStatus: 405, reply: failed(INTERNAL, 'expected the method POST') }
const NOT_GRPC: CallRefusal = { httpStatus: 415, reply: failed(INVALID_ARGUMENT, 'expected the content-type application/grpc') }
const NO_METHOD: CallRefusal = { httpStatus: 200, reply: failed(UNIMPLEMENTED, 'no such method') }
const BAD_TIMEOUT: CallRefusal = { httpStatus: 200, reply: failed(INTERNAL, 'grpc-timeout is malformed') }

/** Returns the method that is called, or the refusal. `timeoutMs` is NaN if `grpc-timeout` is malformed. */
export function methodOf(methods: ReadonlyMap<string, GrpcMethod>, head: CallHead, timeoutMs: number): GrpcMethod | CallRefusal {
  if (head.method !== 'POST') return NOT_POST
  if (!isGrpc(head.contentType)) return NOT_GRPC
  const method = methods.get(head.path)
  if (method === undefined) return NO_METHOD
  return Number.isNaN(timeoutMs) ? BAD_TIMEOUT : method
}

export function isRefusal(method: GrpcMethod | CallRefusal): method is CallRefusal {
  return 'httpStatus' in method
}

/** Whether the call declares that its messages may be compressed. */
export function isEncoded(encoding: string): boolean {
  return encoding !== '' && encoding !== 'identity'
}

/** Accepts only messages that are Protocol Buffers, which is the default of `application/grpc`. */
function isGrpc(contentType: string): boolean {
  return contentType === 'application/grpc' || contentType === 'application/grpc+proto' || GRPC_WITH_PARAMETERS.test(contentType)
}

const GRPC_WITH_PARAMETERS = /^application\/grpc(?:\+proto)?[ \t]*;/

const MAX_DIGITS = 8
const ZERO = 48
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }

/** Returns the milliseconds of a `grpc-timeout`, which has up to eight digits and a unit: Infinity if it is absent (''), NaN if it is malformed. */
export function timeoutMsOf(text: string): number {
  if (text === '') return Number.POSITIVE_INFINITY
  const digits = text.length - 1
  if (digits < 1 || digits > MAX_DIGITS) return Number.NaN
  let amount = 0
  for (let at = 0; at < digits; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return Number.NaN
    amount = amount * 10 + digit
  }
  return amount * (UNIT_MS[text[digits]!] ?? Number.NaN)
}

/** Longer status messages are cut, since many clients accept header blocks of 8 KiB at most. */
const MAX_CHARACTERS = 1024
const PLAIN = /^[ -$&-~]*$/

/** Encodes a status message for the field `grpc-message`: as UTF-8, percent-encoded except for printable ASCII. */
export function encodedStatusMessage(message: string): string {
  let encoded = ''
  for (const character of message.slice(0, MAX_CHARACTERS)) {
    const piece = PLAIN.test(character) ? character : percentEncoded(character)
    if (encoded.length + piece.length > MAX_CHARACTERS) break
    encoded += piece
  }
  return encoded
}

function percentEncoded(character: string): string {
  return Array.from(Buffer.from(character, 'utf8'), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

/** Each message has a prefix: one byte that says whether it is compressed, and four bytes of length. */
export const PREFIX_BYTES = 5
const IS_COMPRESSED = 1

const COMPRESSED = failed(UNIMPLEMENTED, 'compressed messages are not supported')
const NO_ENCODING = failed(INTERNAL, 'the message is compressed, but grpc-encoding does not say how')
const UNKNOWN_FLAG = failed(INTERNAL, 'the first byte of the message is neither 0 nor 1')
const TOO_LARGE = failed(RESOURCE_EXHAUSTED, 'the message is too large')
const NONE = failed(UNIMPLEMENTED, 'the call has no message')
const SEVERAL = failed(UNIMPLEMENTED, 'the call has more than one message')
const CUT_SHORT = failed(INTERNAL, 'the message is cut short')

export interface MessageRules {
  readonly maxBytes: number
  /** The call declares a compression. */
  readonly isEncoded: boolean
}

/**
 * Returns what is certainly wrong with a call's body, or undefined if nothing is so far. Its first `length` bytes are at `at`; `isWhole` says
 * that no more will come. The final result does not depend on how the body was split.
 */
export function bodyFailure(bytes: Uint8Array, at: number, length: number, isWhole: boolean, rules: MessageRules): GrpcReply | undefined {
  if (length === 0) return isWhole ? NONE : undefined
  const flag = bytes[at]!
  if (flag !== 0) return flag !== IS_COMPRESSED ? UNKNOWN_FLAG : rules.isEncoded ? COMPRESSED : NO_ENCODING
  if (length < PREFIX_BYTES) return isWhole ? CUT_SHORT : undefined
  const messageBytes = bytes[at + 1]! * 2 ** 24 + (bytes[at + 2]! << 16) + (bytes[at + 3]! << 8) + bytes[at + 4]!
  if (messageBytes > rules.maxBytes) return TOO_LARGE
  if (length > PREFIX_BYTES + messageBytes) return SEVERAL
  return isWhole && length < PREFIX_BYTES + messageBytes ? CUT_SHORT : undefined
}

export function framed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + message.length)
  bytes[0] = 0
  bytes.writeUInt32BE(message.length, 1)
  bytes.set(message, PREFIX_BYTES)
  return bytes
}

export const NO_MEMORY = failed(RESOURCE_EXHAUSTED, 'too many messages are being received at once')

/** Bounds the memory of messages that have arrived only in part, for all connections of a worker. */
export class PartialMessages {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Returns false, and changes nothing, if there is no room. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    this.#bytes += bytes
    return true
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes
  }
}
