import type { Logger } from 'pino'
import type { CallerDigest } from '../../engine/decide-options.ts'
import { show } from '../../text/problem.ts'
import { OneAtATime } from '../../time/one-at-a-time.ts'
import { ApiError, ReadOnly } from '../api/api-error.ts'
import { readQuery, readReason, refuseUnknown } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type { BundleAnnouncement, BundleTextJson } from '../api/instance-types.ts'
import { LongResponses } from '../api/long-responses.ts'
import { credentialText } from './policies-endpoint.ts'

export interface BundlesParts {
  /** These are JSON, made on the main thread, where no request waits for it. */
  readonly active: () => Promise<string>
  readonly list: () => Promise<string>
  readonly changes: (ask: { readonly version: string; readonly from: string | undefined }) => Promise<string>
  readonly text: (ask: BundleTextAsk) => Promise<PastBundleText>
  /** Notes that somebody gets a text with its credentials, for the list of changes. */
  readonly noteTextRead: (read: BundleTextRead) => Promise<void>
  readonly announce: (announced: AnnouncedBundle) => Promise<void>
  /** Converts credentials to digests. */
  readonly callerDigest: CallerDigest
  readonly logger: Logger
}

export interface BundleTextAsk {
  readonly version: string
  /** Whether it is wanted as it came. */
  readonly isClear: boolean
}

export interface BundleTextRead {
  readonly version: string
  readonly actor: string
}

/** Who is about to publish a bundle, and why. */
export interface AnnouncedBundle {
  readonly hash: string
  readonly actor: string
  readonly reason: string
}

/** The text of a bundle that was active. */
export interface PastBundleText {
  /** All members of the response but `hidden` and `text`, as a JSON object. */
  readonly members: string
  readonly text: string
  /** Whether it has credentials: its rules or routes match some, or a backend gets one. */
  readonly hasCredentials: boolean
  /** Where the text has those that are to be hidden, in its order. */
  readonly credentials: readonly { readonly start: number; readonly end: number; readonly pattern: string }[]
}

/** GET bundle, GET bundles, GET bundles/VERSION, GET bundles/VERSION/changes, POST bundles/announcements: what is active, what was, what differs, and who is next. */
export function* bundleEndpoints(parts: BundlesParts): Generator<ApiRoute> {
  const { active, list, changes, callerDigest, logger } = parts
  yield announcementEndpoint(parts)
  for (const [path, response] of [['bundle', active] as const, ['bundles', list] as const])
    yield {
      method: 'GET',
      path,
      handle: async ({ query }) => {
        readQuery(query, [])
        return { status: 200, text: await response() }
      },
    }
  yield {
    method: 'GET',
    path: 'bundles/',
    tail: '/changes',
    handle: async ({ rest, query }) => {
      const { from } = readQuery(query, ['from'])
      return { status: 200, text: await changes({ version: readVersion(rest), from: from === undefined ? undefined : readVersion(from) }) }
    },
  }
  const texts = new BundleTexts(parts.text, callerDigest)
  yield {
    method: 'GET',
    path: 'bundles/',
    handle: async ({ rest, query, actor, isReadOnly }) => {
      const { credentials = 'digests' } = readQuery(query, ['credentials'])
      if (credentials !== 'digests' && credentials !== 'clear') throw new ApiError('bad_request', 'credentials: expected digests or clear')
      const version = readVersion(rest)
      const isClear = credentials === 'clear'
      if (isClear && isReadOnly) throw new ReadOnly('the text with its credentials')
      const { response, hasCredentials } = await texts.make({ version, isClear })
      if (isClear && hasCredentials) {
        logger.info({ event: 'bundle_text_read', version, actor }, `the text of bundle ${version} was read with its credentials`)
        await parts.noteTextRead({ version, actor })
      }
      return { status: 200, text: response, onClosed: texts.sending(response) }
    },
  }
}

/** The bundle itself arrives by its source; the list of changes then has who published it. */
function announcementEndpoint({ announce, logger }: BundlesParts): ApiRoute {
  return {
    method: 'POST',
    path: 'bundles/announcements',
    handle: async ({ query, body, actor }) => {
      readQuery(query, [])
      refuseUnknown<BundleAnnouncement>(body, ['hash', 'reason'])
      const { hash } = body
      if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/.test(hash))
        throw new ApiError('bad_request', `hash: expected the sha256 of the bundle in 64 hexadecimal digits, got ${show(hash)}`)
      const reason = readReason(body['reason'])
      await announce({ hash, actor, reason })
      logger.info({ event: 'bundle_announced', hash, actor, reason }, 'a bundle was announced: who is about to publish it, and why')
      return { status: 204 }
    },
  }
}

/** Versions compare as numbers, so 041 is 41. */
function readVersion(text: string): string {
  if (!/^\d{1,30}$/.test(text)) throw new ApiError('unknown_bundle', 'expected the version of a bundle, such as 41')
  return BigInt(text).toString()
}

/** Texts that may wait for one another at one worker. */
const MAX_WAITING = 8
/** Clients may be slow to read what they have asked for. While this much is waiting for them at one worker, nothing more is made. */
const MAX_UNREAD_BYTES = 32 * 1024 * 1024

export const TOO_MANY_TEXTS = 'too many texts and comparisons of bundles are waiting to be made: ask again in a moment'

/** Makes responses with texts one at a time, because each takes several times 16 MB at most. Those who ask for the same one share it. */
class BundleTexts {
  readonly #text: BundlesParts['text']
  readonly #callerDigest: CallerDigest
  readonly #work = new OneAtATime(MAX_WAITING)
  readonly #slices = new LongResponses()
  /** Responses that are being sent, with the number of clients that get them. */
  readonly #unread = new Map<Buffer, number>()

  constructor(text: BundlesParts['text'], callerDigest: CallerDigest) {
    this.#text = text
    this.#callerDigest = callerDigest
  }

  async make(ask: BundleTextAsk): Promise<{ readonly response: Buffer; readonly hasCredentials: boolean }> {
    this.#refuseIfUnread()
    const made = this.#work.do(`${ask.version} ${ask.isClear}`, async () => {
      const found = await this.#text(ask)
      // Those who waited for this one may be slow to read what was made meanwhile.
      this.#refuseIfUnread()
      return { response: await this.#slices.make(responseSteps(found, this.#callerDigest)), hasCredentials: found.hasCredentials }
    })
    if (made === undefined) throw new ApiError('too_many_readers', TOO_MANY_TEXTS)
    return made
  }

  #refuseIfUnread(): void {
    const unreadBytes = [...this.#unread.keys()].reduce((sum, { length }) => sum + length, 0)
    if (unreadBytes > MAX_UNREAD_BYTES)
      throw new ApiError('too_many_readers', 'too many clients are slow to read the texts of bundles: ask again later')
  }

  /** A client gets this response; to be called with what is returned when that is over. */
  sending(response: Buffer): () => void {
    this.#unread.set(response, (this.#unread.get(response) ?? 0) + 1)
    return () => {
      const others = this.#unread.get(response)! - 1
      if (others > 0) this.#unread.set(response, others)
      else this.#unread.delete(response)
    }
  }
}

const CHARACTERS_A_STEP = 64 * 1024

/** A text may have 16 MB. It is encoded a piece at a time: half of a surrogate pair becomes an escape, and two of these mean the pair again. */
function* responseSteps({ members, text, credentials }: PastBundleText, callerDigest: CallerDigest): Generator<void, Buffer> {
  const hidden: Pick<BundleTextJson, 'hidden'> = { hidden: credentials.length }
  const pieces: Buffer[] = [Buffer.from(`${members.slice(0, -1)},${JSON.stringify(hidden).slice(1, -1)},"text":"`)]
  let from = 0
  for (const { start, end, pattern } of [...credentials, { start: text.length, end: text.length, pattern: '' }]) {
    for (; from < start; from += CHARACTERS_A_STEP) {
      pieces.push(encoded(text.slice(from, Math.min(from + CHARACTERS_A_STEP, start))))
      yield
    }
    if (end > start) pieces.push(encoded(hiddenText(text.slice(start, end), pattern, callerDigest)))
    from = end
    if (pieces.length % 200 === 0) yield
  }
  pieces.push(Buffer.from('"}'))
  return Buffer.concat(pieces)
}

function encoded(text: string): Buffer {
  return Buffer.from(JSON.stringify(text).slice(1, -1))
}

/** A block of YAML keeps its indentation and the end of its last line, so that the text around it stays as it is. */
function hiddenText(written: string, pattern: string, callerDigest: CallerDigest): string {
  const [before] = /^\s*/.exec(written)!
  const after = written.endsWith('\n') ? '\n' : ''
  return `${before}${credentialText(pattern, callerDigest)}${after}`
}
