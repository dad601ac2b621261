import { failed, type GrpcReply, INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED } from './grpc-method.ts'

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
