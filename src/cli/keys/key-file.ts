import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import type { KeyLabelsJson } from '../../admin/api/key-types.ts'
import { digestOf, keyIdOf } from '../../callers/keys/issued-key.ts'
import { readKeyLabels } from '../../callers/keys/key-labels.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { printableText } from '../../text/printable.ts'
import { readingProblem } from '../file-problem.ts'
import { AdminProblem } from '../text/caller-values.ts'

/** A key as a line of an export has it. */
export interface FileKey {
  /** Number of its line, from 1. */
  readonly line: number
  readonly digest: string
  readonly labels: KeyLabelsJson
  readonly expiresMs: number | undefined
}

/** The longest line that can be used, with 32 long labels of which every character is escaped, has less than half of this. */
const MAX_LINE_BYTES = 128 * 1024
const NEWLINE = 0x0a

/** Reads the whole file, or standard input for `-`. Throws an AdminProblem if a line cannot be used. */
export async function readKeyFile(file: string): Promise<Map<string, FileKey>> {
  const keys = new Map<string, FileKey>()
  let number = 0
  try {
    for await (const line of linesOf(file === '-' ? process.stdin : createReadStream(file))) {
      number++
      const text = textOf(line)
      if (text.trim() === '') continue
      const { id, key } = readKeyLine(text, number)
      if (keys.has(id)) throw new LineProblem(`key ${id} is there twice`)
      keys.set(id, key)
    }
  } catch (error) {
    const name = file === '-' ? 'standard input' : file
    if (error instanceof LineProblem)
      throw new AdminProblem(printableText(`${name}, line ${number}: ${error.message}. Nothing was changed`))
    throw new AdminProblem(`cannot read ${name}: ${readingProblem(error)}`)
  }
  return keys
}

class LineProblem extends Error {}

/** Yields the bytes of each line. One that is too long is given out as far as it was read: nobody reads a gigabyte to refuse it. */
async function* linesOf(stream: AsyncIterable<unknown>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const piece of stream) {
    const bytes = Buffer.concat([rest, piece as Buffer])
    let start = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      yield bytes.subarray(start, end)
      start = end + 1
    }
    rest = bytes.subarray(start)
    if (rest.length > MAX_LINE_BYTES) break
  }
  if (rest.length > 0) yield rest
}

function textOf(line: Buffer): string {
  if (line.length > MAX_LINE_BYTES) throw new LineProblem(`it has more than ${MAX_LINE_BYTES} bytes`)
  if (!isUtf8(line)) throw new LineProblem('it is not UTF-8')
  return line.toString()
}

function readKeyLine(line: string, number: number): { readonly id: string; readonly key: FileKey } {
  let json: unknown
  try {
    json = JSON.parse(line)
  } catch {
    throw new LineProblem('expected JSON')
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw new LineProblem('expected an object')
  const { id, digest, labels, expires_at, ...others } = json as Record<string, unknown>
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw new LineProblem(`unknown member ${JSON.stringify(unknown)}; expected id, digest, labels, expires_at`)
  const bytes = typeof digest === 'string' ? digestOf(digest) : undefined
  if (bytes === undefined) throw new LineProblem('digest: expected the SHA-256 of a key, 43 characters in base64url')
  if (id !== undefined && id !== keyIdOf(bytes)) throw new LineProblem(`id: expected ${keyIdOf(bytes)}, which follows from the digest`)
  const read = readKeyLabels(labels)
  if (typeof read === 'string') throw new LineProblem(read)
  const expiresMs = expires_at === undefined || expires_at === null ? undefined : dateTimeMs(String(expires_at))
  if (Number.isNaN(expiresMs)) throw new LineProblem('expires_at: expected a time such as 2026-01-31T12:00:00Z')
  return { id: keyIdOf(bytes), key: { line: number, digest: digest as string, labels: read, expiresMs } }
}
