import * as type from '../../../src/doors/grpc/http2/frame-reader.ts'
import { FRAME_HEAD_BYTES, PREFACE } from '../../../src/doors/grpc/http2/frame-reader.ts'

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly streamId: number
  readonly payload: Buffer
}

export function frame(frameType: number, flags: number, streamId: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = frameType
  head[4] = flags
  head.writeUInt32BE(streamId, 5)
  return Buffer.concat([head, payload])
}

export function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function settings(...pairs: readonly (readonly [id: number, value: number])[]): Buffer {
  return frame(type.SETTINGS_FRAME, 0, 0, Buffer.concat(pairs.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), number(value)]))))
}

export const ping = (): Buffer => frame(type.PING, 0, 0, Buffer.from('12345678'))
export const reset = (streamId: number, error = type.CANCEL): Buffer => frame(type.RST_STREAM, 0, streamId, number(error))
export const windowUpdate = (streamId: number, bytes: number): Buffer => frame(type.WINDOW_UPDATE, 0, streamId, number(bytes))

export function headers(streamId: number, block: Uint8Array, isEnd = false): Buffer {
  return frame(type.HEADERS, type.END_HEADERS | (isEnd ? type.END_STREAM : 0), streamId, block)
}

export function data(streamId: number, payload: Uint8Array, isEnd = true): Buffer {
  return frame(type.DATA, isEnd ? type.END_STREAM : 0, streamId, payload)
}

/** What a client says first. */
export const hello = (...pairs: readonly (readonly [id: number, value: number])[]): Buffer => Buffer.concat([PREFACE, settings(...pairs)])

/** Each field as it is: nothing indexed, nothing compressed. */
export function plainBlock(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  return Buffer.concat(fields.map(([name, value]) => Buffer.concat([Buffer.from([0]), plainText(name), plainText(value)])))
}

export function plainText(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  return Buffer.concat([integer(0, 7, bytes.length), bytes])
}

/** RFC 7541 5.1. */
export function integer(first: number, prefixBits: number, value: number): Buffer {
  const max = 2 ** prefixBits - 1
  if (value < max) return Buffer.from([first | value])
  const bytes = [first | max]
  let rest = value - max
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  return Buffer.from([...bytes, rest])
}

export function callFields(path: string, more: readonly (readonly [string, string])[] = []): (readonly [string, string])[] {
  return [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    [':authority', 'edge'],
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
    ...more,
  ]
}

/** The frames at the beginning of some bytes, and how many bytes they have. */
export function framesIn(bytes: Buffer): { frames: Frame[]; length: number } {
  const frames: Frame[] = []
  let at = 0
  while (bytes.length - at >= FRAME_HEAD_BYTES) {
    const end = at + FRAME_HEAD_BYTES + bytes.readUIntBE(at, 3)
    if (end > bytes.length) break
    const streamId = bytes.readUInt32BE(at + 5)
    frames.push({ type: bytes[at + 3]!, flags: bytes[at + 4]!, streamId, payload: bytes.subarray(at + FRAME_HEAD_BYTES, end) })
    at = end
  }
  return { frames, length: at }
}
