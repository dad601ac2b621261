import type { Transform } from 'node:stream'
import { promisify } from 'node:util'
import {
  brotliDecompress,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  gunzip,
  inflate,
  type ZlibOptions,
  constants as zlib,
} from 'node:zlib'

export type Coding = 'identity' | 'gzip' | 'deflate' | 'br'

const WHOLE = {
  gzip: promisify<Buffer, ZlibOptions, Buffer>(gunzip),
  deflate: promisify<Buffer, ZlibOptions, Buffer>(inflate),
  br: decompressBrotli,
}

/** The one coding that a Content-Encoding names, or undefined when we cannot read it. */
export function codingOf(contentEncoding: string | undefined): Coding | undefined {
  const name = contentEncoding?.trim().toLowerCase()
  if (name === undefined || name === '' || name === 'identity') return 'identity'
  if (name === 'x-gzip') return 'gzip'
  return name === 'gzip' || name === 'deflate' || name === 'br' ? name : undefined
}

/** Decodes a whole body. Throws a RangeError when it would become larger than `maxBytes`, another error when it is damaged. */
export async function decodeWhole(body: Buffer, coding: Coding, maxBytes: number): Promise<Buffer> {
  return coding === 'identity' ? body : WHOLE[coding](body, { maxOutputLength: maxBytes })
}

/** Decodes a body while it comes, and gives out what it has at once. */
export function newDecoder(coding: Exclude<Coding, 'identity'>): Transform {
  if (coding === 'br') return createBrotliDecompress({ flush: zlib.BROTLI_OPERATION_FLUSH })
  const options = { flush: zlib.Z_SYNC_FLUSH }
  return coding === 'gzip' ? createGunzip(options) : createInflate(options)
}

function decompressBrotli(body: Buffer, options: { maxOutputLength?: number }): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    brotliDecompress(body, options, (error, decoded) => (error === null ? resolve(decoded) : reject(error)))
  })
}
