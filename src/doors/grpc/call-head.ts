import { failed, type GrpcMethod, type GrpcReply, INTERNAL, INVALID_ARGUMENT, UNIMPLEMENTED } from './grpc-method.ts'

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
