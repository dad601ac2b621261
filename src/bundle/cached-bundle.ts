import { createHash } from 'node:crypto'
import { MAX_BUNDLE_BYTES, type OfferedBundle } from './bundle-source.ts'

const MAGIC = 'edge-bundle-cache-1 '
// A signature can be as long as a header of the source's response, since it is not checked without keys.
const MAX_HEAD_BYTES = 65536

export const MAX_CACHED_BYTES = MAX_HEAD_BYTES + MAX_BUNDLE_BYTES

interface Head {
  readonly format: 'json' | 'yaml'
  readonly signature?: string
  readonly sha256: string
}

/**
 * One file: a line that says what it is, then the bytes as they came. Signature and bytes in two files could be out of step after
 * a crash, and then an instance could not start from them.
 */
export function encodeCached({ bytes, format, signature }: OfferedBundle): Buffer {
  const head: Head = { format, ...(signature === undefined ? {} : { signature }), sha256: sha256(bytes) }
  return Buffer.concat([Buffer.from(`${MAGIC}${JSON.stringify(head)}\n`), bytes])
}

/** Throws when it is damaged. */
export function decodeCached(file: Buffer): OfferedBundle {
  const end = file.subarray(0, MAX_HEAD_BYTES).indexOf('\n')
  const line = file.toString('utf8', 0, Math.max(end, 0))
  const head = line.startsWith(MAGIC) ? readHead(line.slice(MAGIC.length)) : undefined
  if (head === undefined) throw new Error('it is damaged, or not a cached bundle')
  const bytes = file.subarray(end + 1)
  if (sha256(bytes) !== head.sha256) throw new Error('it is damaged: its checksum is wrong')
  return { bytes, format: head.format === 'yaml' ? 'yaml' : 'json', signature: head.signature }
}

function readHead(text: string): Head | undefined {
  try {
    const head = JSON.parse(text) as Head | null
    return ['string', 'undefined'].includes(typeof head?.signature) ? (head ?? undefined) : undefined
  } catch {
    return undefined
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
