import { createHmac, randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { ServerConfig } from '../../config/config.ts'
import { requestFailure } from '../../outbound/request-failure.ts'
import { retryAfterMsOf } from '../../outbound/retry-after.ts'
import { droppedEvent, type PublishedEvent } from '../../telemetry/events/published-events.ts'
import type { Series } from '../../telemetry/metrics/metric-families.ts'
import { Backoff } from '../../time/clock.ts'
import { isForChat, slackBody } from './slack-message.ts'

export interface WebhookParts {
  readonly url: URL
  /** Key that requests are signed with; undefined if they are not. */
  readonly key: Buffer | undefined
  /** `slack`: messages for an incoming webhook of Slack, about what people should hear of. */
  readonly format?: EventsFormat | undefined
  readonly logger: Logger
  readonly dropped: Series
  readonly wallMs: () => number
  readonly userAgent: string
  readonly timing?: WebhookTiming
}

type EventsFormat = ServerConfig['eventsFormat']

interface WebhookTiming {
  /** How long events are gathered before they are posted together. */
  readonly gatherMs: number
  /** How long to wait for the response to begin. */
  readonly timeoutMs: number
  readonly firstRetryMs: number
  readonly longestRetryMs: number
  /** The longest pause that the receiver can ask for, by `Retry-After`. */
  readonly longestAskedMs: number
  /** A batch that has not been accepted for this long is dropped. */
  readonly giveUpMs: number
}

const TIMING: WebhookTiming = {
  gatherMs: 1000,
  timeoutMs: 10_000,
  firstRetryMs: 1000,
  longestRetryMs: 60_000,
  longestAskedMs: 600_000,
  giveUpMs: 3_600_000,
}

/** Bounds on one request. */
const MAX_EVENTS = 500
const MAX_CHARACTERS = 128 * 1024
/** If more batches wait, the oldest is dropped. This is about 10,000 events, or 2.5 MB. */
const MAX_BATCHES = 20

interface Batch {
  readonly id: string
  readonly lines: string[]
  characters: number
  /** Number of dropped events before this batch. */
  missingBefore: number
  /** When it was first posted, on the wall clock. */
  triedAtMs: number | undefined
}

/** Posts events to EDGE_EVENTS_URL in order, in batches, one at a time, each until it is accepted. Batches that have waited too long are dropped. */
export class Webhook {
  readonly #parts: WebhookParts
  readonly #timing: WebhookTiming
  readonly #backoff: Backoff
  /** Ordered from the oldest to the newest. Events are added to the last batch until it is full or has been posted. */
  readonly #batches: Batch[] = []
  readonly #lastPost = new AbortController()
  #underWay: Batch | undefined
  #running: Promise<void> | undefined
  #endPause = (): void => {}
  /** Number of dropped events that no batch has announced yet. */
  #unannounced = 0
  #isClosing = false
  #isClosed = false
  /** Why the last attempt failed. */
  #problem: string | undefined
  /** How long the receiver asked to wait then. */
  #askedMs: number | undefined

  constructor(parts: WebhookParts) {
    this.#parts = parts
    this.#timing = parts.timing ?? TIMING
    this.#backoff = new Backoff(this.#timing.firstRetryMs, this.#timing.longestRetryMs)
  }

  offer({ name, line }: PublishedEvent): void {
    if (this.#isClosed || (this.#parts.format === 'slack' && !isForChat(name))) return
    const batch = this.#openBatch(line.length)
    batch.lines.push(line)
    batch.characters += line.length
    if (this.#batches.length > MAX_BATCHES) this.#drop(this.#batches.find((other) => other !== this.#underWay)!)
    this.#running ??= this.#run()
  }

  /** Posts the remaining batches once, as far as there is time. */
  async close(withinMs: number): Promise<void> {
    this.#isClosing = true
    this.#endPause()
    const timer = setTimeout(() => this.#lastPost.abort(), withinMs)
    await this.#running
    clearTimeout(timer)
    this.#isClosed = true
    const lost = this.#batches.splice(0).reduce((sum, { lines }) => sum + lines.length, 0)
    this.#parts.dropped.count += lost
    if (lost > 0) this.#logFailure(this.#problem ?? 'shutdown left no time to send them', lost)
  }

  async #run(): Promise<void> {
    while (this.#batches.length > 0) {
      if (this.#batches.length === 1 && this.#batches[0]!.triedAtMs === undefined) await this.#pause(this.#timing.gatherMs)
      // This may be another batch than before the pause: in a flood, the first one is dropped while it waits.
      if (await this.#post(this.#batches[0]!)) continue
      if (this.#isClosing) break
      const ownMs = this.#backoff.nextMs()
      await this.#pause(this.#askedMs === undefined ? ownMs : Math.min(this.#askedMs, this.#timing.longestAskedMs))
    }
    // This is set here and not when the promise settles, because an event may come in between.
    this.#running = undefined
  }

  /** Returns whether the next batch may be posted. */
  async #post(batch: Batch): Promise<boolean> {
    const { wallMs } = this.#parts
    const { timeoutMs, giveUpMs } = this.#timing
    if (batch.triedAtMs === undefined) this.#seal(batch)
    this.#underWay = batch
    try {
      const what = { id: batch.id, body: bodyOf(batch, this.#parts.format) }
      await postWebhook({ ...this.#parts, ...what, wallMs: wallMs(), timeoutMs, signal: this.#lastPost.signal })
      this.#batches.shift()
      this.#noteAccepted()
      return true
    } catch (error) {
      this.#askedMs = error instanceof Refused ? error.retryAfterMs : undefined
      this.#noteFailure((error as Error).message)
      if (wallMs() - batch.triedAtMs! >= giveUpMs) this.#drop(batch)
      return false
    } finally {
      this.#underWay = undefined
    }
  }

  #openBatch(characters: number): Batch {
    const last = this.#batches.at(-1)
    const isOpen = last !== undefined && last.triedAtMs === undefined
    if (isOpen && last.lines.length < MAX_EVENTS && last.characters + characters <= MAX_CHARACTERS) return last
    // The batch that is being gathered is full, so it is posted without further delay.
    if (isOpen && this.#batches.length === 1) this.#endPause()
    const batch: Batch = { id: `msg_${randomUUID()}`, lines: [], characters: 0, missingBefore: 0, triedAtMs: undefined }
    this.#batches.push(batch)
    return batch
  }

  /** Closes the batch to further events. All events dropped so far came before its own. */
  #seal(batch: Batch): void {
    batch.triedAtMs = this.#parts.wallMs()
    batch.missingBefore = this.#unannounced
    this.#unannounced = 0
  }

  #drop(batch: Batch): void {
    this.#batches.splice(this.#batches.indexOf(batch), 1)
    this.#parts.dropped.count += batch.lines.length
    this.#unannounced += batch.lines.length + batch.missingBefore
  }

  #noteAccepted(): void {
    this.#backoff.reset()
    if (this.#problem === undefined) return
    this.#problem = undefined
    const { logger, url } = this.#parts
    logger.info({ event: 'events_posted_again', url: url.origin }, 'EDGE_EVENTS_URL accepts events again')
  }

  /** Logs a failure once for each change of the reason. */
  #noteFailure(reason: string): void {
    if (reason !== this.#problem && !this.#isClosing) this.#logFailure(reason, 0)
    this.#problem = reason
  }

  /** Logs only the origin of the URL, because its path may be a secret, too. */
  #logFailure(reason: string, lost: number): void {
    const { logger, url } = this.#parts
    const message = lost > 0 ? 'events were not posted to EDGE_EVENTS_URL and are lost' : 'events could not be posted to EDGE_EVENTS_URL'
    logger.warn({ event: 'events_not_posted', url: url.origin, reason, lost }, message)
  }

  #pause(ms: number): Promise<void> {
    if (this.#isClosing) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref()
      this.#endPause = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** Every attempt sends the same body. */
function bodyOf({ lines, missingBefore, triedAtMs }: Batch, format: EventsFormat = 'json'): string {
  const announced = missingBefore > 0 ? [droppedEvent(missingBefore, triedAtMs!).line] : []
  if (format === 'slack') return slackBody([...announced, ...lines])
  return `{"events":[${[...announced, ...lines].join(',')}]}`
}

interface WebhookRequest {
  readonly url: URL
  readonly key: Buffer | undefined
  /** The same id for each attempt. */
  readonly id: string
  readonly body: string
  /** Time of this attempt. */
  readonly wallMs: number
  readonly userAgent: string
  /** How long to wait for the response to begin. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** The connection is kept for the next request if the rest of a response is no longer than this and arrives within BODY_MS. */
const MAX_BODY_BYTES = 16 * 1024
const BODY_MS = 1000

/** The receiver answered, with a status other than 2xx. */
class Refused extends Error {
  /** Slack and others answer 429 with how long to wait. */
  readonly retryAfterMs: number | undefined

  constructor(status: number, retryAfterMs: number | undefined) {
    super(`it returned ${status}`)
    this.retryAfterMs = retryAfterMs
  }
}

/** Posts once, signed as Standard Webhooks specifies if there is a key. Throws an Error whose message says why it was not accepted and contains no secret. */
async function postWebhook(request: WebhookRequest): Promise<void> {
  const { url, body, timeoutMs } = request
  const ending = new AbortController()
  const end = (): void => ending.abort()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    end()
  }, timeoutMs).unref()
  request.signal.addEventListener('abort', end)
  if (request.signal.aborted) end()
  try {
    const response = await fetch(url, { method: 'POST', headers: headersOf(request), body, redirect: 'manual', signal: ending.signal })
    clearTimeout(timer)
    await readRest(response, end)
    const { status, headers } = response
    if (status >= 300 && status < 400) throw new Error(`it returned ${status}: redirects are not followed`)
    if (status < 200 || status >= 300)
      throw new Refused(status, retryAfterMsOf(headers.get('retry-after') ?? undefined, headers.get('date') ?? undefined, request.wallMs))
  } catch (error) {
    if (error instanceof Refused) throw error
    if (isLate) throw new Error(`no response within ${timeoutMs / 1000} s`)
    if (request.signal.aborted) throw new Error('shutdown left no time to send them')
    throw requestFailure(error as Error)
  } finally {
    clearTimeout(timer)
    request.signal.removeEventListener('abort', end)
  }
}

function headersOf({ key, id, body, wallMs, userAgent }: WebhookRequest): Record<string, string> {
  const plain = { 'Content-Type': 'application/json', 'Accept-Encoding': 'identity', 'User-Agent': userAgent }
  if (key === undefined) return plain
  const timestamp = String(Math.floor(wallMs / 1000))
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    ...plain,
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  }
}

/** Reads the rest of a response. Its status is known, so errors in the rest do not matter. */
async function readRest({ body }: Response, end: () => void): Promise<void> {
  const timer = setTimeout(end, BODY_MS).unref()
  let bytes = 0
  try {
    for await (const chunk of body ?? []) {
      bytes += (chunk as Uint8Array).length
      if (bytes > MAX_BODY_BYTES) break // this closes the connection
    }
  } catch {
    // The status is known, so a broken connection does not matter.
  } finally {
    clearTimeout(timer)
  }
}
