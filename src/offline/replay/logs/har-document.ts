import { textMs } from './log-time.ts'
import { type LoggedRequest, WholeRequest } from './logged-request.ts'

/** Bound on one entry, with the bodies of its request and its response. */
const MAX_ENTRY_CHARACTERS = 16 * 1024 ** 2
const MAX_NAME_CHARACTERS = 32

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Reads a HAR 1.2 document, in pieces of any size, as latin1 strings: the members of `log.entries`, one after the other. Only the entry being read
 * is in memory, up to a bound.
 */
export class HarDocument {
  /** Entries that have begun. */
  entryCount = 0
  readonly #onEntry: (request: LoggedRequest | string) => void
  #depth = 0
  #isInText = false
  #isEscaped = false
  /** Name of the member of `log` whose value comes next. */
  #name = ''
  #isNamed = false
  #isInEntries = false
  /** The part of the current entry that earlier pieces had. */
  #earlier = ''
  #isTooLong = false

  constructor(onEntry: (request: LoggedRequest | string) => void) {
    this.#onEntry = onEntry
  }

  push(piece: string): void {
    let entryAt = this.#isInEntry ? 0 : -1
    let at = 0
    while (at < piece.length) {
      if (this.#isInText) {
        at = this.#skipText(piece, at)
        continue
      }
      const code = piece.charCodeAt(at)
      if (code === QUOTE) {
        this.#isInText = true
        if (this.#depth === 2 && !this.#isNamed) this.#name = ''
      } else if (code === 0x7b || code === 0x5b) {
        if (this.#depth === 2) this.#isInEntries = code === 0x5b && this.#name === 'entries' && this.#isNamed
        if (this.#depth++ === 3 && this.#isInEntries) {
          entryAt = at
          this.entryCount++
        }
      } else if (code === 0x7d || code === 0x5d) {
        if (--this.#depth === 3 && this.#isInEntries) {
          this.#endEntry(piece.slice(entryAt, at + 1))
          entryAt = -1
        } else if (this.#depth === 1) this.#isNamed = false
      } else if (this.#depth === 2 && code === 0x3a) this.#isNamed = true
      else if (this.#depth === 2 && code === 0x2c) this.#isNamed = false
      at++
    }
    if (entryAt >= 0) this.#keep(piece.slice(entryAt))
  }

  /** Whether the document was complete. */
  get isWhole(): boolean {
    return this.#depth === 0 && !this.#isInText
  }

  get #isInEntry(): boolean {
    return this.#isInEntries && this.#depth > 3
  }

  /** Returns the index after the string, or the length of the piece if the string goes on. */
  #skipText(piece: string, from: number): number {
    let at = this.#isEscaped ? from + 1 : from
    this.#isEscaped = false
    while (this.#isInText && at < piece.length) {
      const quote = piece.indexOf('"', at)
      const end = quote < 0 ? piece.length : quote
      let backslashes = 0
      while (end - 1 - backslashes >= at && piece.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++
      this.#isEscaped = backslashes % 2 === 1
      if (quote < 0) at = end
      else if (this.#isEscaped) {
        at = quote + 1
        this.#isEscaped = false
      } else {
        at = quote
        this.#isInText = false
      }
    }
    const isName = this.#depth === 2 && !this.#isNamed && this.#name.length < MAX_NAME_CHARACTERS
    if (isName) this.#name += piece.slice(from, Math.min(at, from + MAX_NAME_CHARACTERS))
    return this.#isInText ? at : at + 1
  }

  #keep(part: string): void {
    this.#isTooLong ||= this.#earlier.length + part.length > MAX_ENTRY_CHARACTERS
    this.#earlier = this.#isTooLong ? '' : this.#earlier + part
  }

  #endEntry(lastPart: string): void {
    this.#keep(lastPart)
    this.#onEntry(this.#isTooLong ? `its entry is longer than ${MAX_ENTRY_CHARACTERS / 1024 ** 2} MiB` : readEntry(this.#earlier))
    this.#earlier = ''
    this.#isTooLong = false
  }
}

interface Entry {
  readonly startedDateTime?: unknown
  readonly request?: {
    readonly method?: unknown
    readonly url?: unknown
    readonly headers?: unknown
    readonly postData?: { readonly text?: unknown }
  }
}

function readEntry(bytes: string): LoggedRequest | string {
  let entry: Entry | null
  try {
    entry = JSON.parse(Buffer.from(bytes, 'latin1').toString('utf8')) as Entry | null
  } catch {
    return 'its entry is not valid JSON'
  }
  const { startedDateTime, request } = entry ?? {}
  const timeMs = typeof startedDateTime === 'string' ? textMs(startedDateTime) : Number.NaN
  if (Number.isNaN(timeMs)) return 'its startedDateTime is missing or cannot be read'
  const { method, url, headers, postData } = request ?? {}
  const [, host, target] = typeof url === 'string' ? (HTTP_URL.exec(url) ?? []) : []
  if (typeof method !== 'string' || method === '' || target === undefined) return 'it has no request (method and http url)'
  const uri = target.startsWith('/') ? target : `/${target}`
  const fields = fieldsOf(headers)
  const body = typeof postData?.text === 'string' ? postData.text : undefined
  return new WholeRequest({
    timeMs,
    method,
    uri: byteText(uri),
    host: host!,
    peer: undefined,
    fields,
    body,
    size: sizeOf(uri, fields, body),
  })
}

/** The fragment of a URL is not sent to servers. */
const HTTP_URL = /^(?:https?|wss?):\/\/(?:[^/?#@]*@)?([^/?#]+)([^#]*)/i

/** The entry's response does not count, because it is not kept. */
function sizeOf(uri: string, fields: readonly string[], body = ''): number {
  return fields.reduce((sum, text) => sum + text.length, uri.length + body.length)
}

/** Returns the UTF-8 bytes as a latin1 string, which is what servers see. */
function byteText(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** Leaves out the pseudo-fields of HTTP/2. */
function fieldsOf(headers: unknown): string[] {
  const fields: string[] = []
  if (!Array.isArray(headers)) return fields
  for (const header of headers as { name?: unknown; value?: unknown }[]) {
    const { name, value } = header ?? {}
    if (typeof name === 'string' && typeof value === 'string' && !name.startsWith(':')) fields.push(name, byteText(value))
  }
  return fields
}
