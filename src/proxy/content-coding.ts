import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, constants as zlib } from 'node:zlib'

export type Coding = 'identity' | 'gzip' | 'deflate' | 'br'

/** The one coding that a Content-Encoding names, or undefined when we cannot read it. */
export function codingOf(contentEncoding: string | undefined): Coding | undefined {
  const name = contentEncoding?.trim().toLowerCase()
  if (name === undefined || name === '' || name === 'identity') return 'identity'
  if (name === 'x-gzip') return 'gzip'
  return name === 'gzip' || name === 'deflate' || name === 'br' ? name : undefined
}

/** Decodes a body while it comes, and gives out what it has at once. */
export function newDecoder(coding: Exclude<Coding, 'identity'>): Transform {
  if (coding === 'br') return createBrotliDecompress({ flush: zlib.BROTLI_OPERATION_FLUSH })
  const options = { flush: zlib.Z_SYNC_FLUSH }
  return coding === 'gzip' ? createGunzip(options) : createInflate(options)
}

/** How much of what it has decoded a Brotli decoder keeps: the body's first byte says so (RFC 7932 9.1), and 14 bytes can fill 16 MiB. */
export function brotliWindowBytes(bytes: Buffer): number {
  const first = bytes[0] ?? 0
  const large = (first >> 1) & 7
  return 2 ** ((first & 1) === 1 && large > 0 ? 17 + large : 17)
}
