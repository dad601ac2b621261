import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type Agent, type ClientRequest, Agent as HttpAgent, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { type ExportResult, ExportResultCode } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { BatchSpanProcessor, type ReadableSpan, type SpanProcessor } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import { VERSION } from '../../files/package-files.ts'
import type { Series } from '../metrics/metric-families.ts'

export interface SpanSenderParts {
  /** Base URL of the collector, to which `/v1/traces` is added. */
  readonly url: URL
  readonly logger: Logger
  readonly sent: Series
  readonly dropped: Series
  readonly nowMs: () => number
  /** Explains in words why a request failed. */
  readonly explain: (error: Error) => string
  readonly timing?: SenderTiming
}

export interface SenderTiming {
  /** How long spans are gathered before they are sent together. */
  readonly gatherMs: number
  /** Time limit for a batch to be accepted, including retries. */
  readonly timeoutMs: number
  /** Time after which a response is cut off. The exporter's own limit covers only silence, so that a response could go on forever. */
  readonly cutMs: number
  /** Minimum time between two log lines. */
  readonly logMs: number
}

const TIMING: SenderTiming = { gatherMs: 1000, timeoutMs: 5000, cutMs: 6000, logMs: 60_000 }

/** Spans of one worker that wait or are being sent, about 4 MB. Any more are dropped. */
const MAX_WAITING = 2048
/** Spans in one request. Writing them as JSON takes this thread about a millisecond. */
const MAX_BATCH = 256
/** Limit for a collector's response, which is normally short. The exporter would read 4 MB, and parse them in one step. */
const MAX_RESPONSE_BYTES = 65_536
/** Name of the exporter's error for an HTTP status. After several attempts, the error does not say which status it was. */
const STATUS_ERROR = 'OTLPExporterError'

/** Sends spans to a collector in batches, in the background. Whatever the collector does, memory is bounded and no request waits. */
export class SpanSender implements SpanProcessor {
  readonly #parts: SpanSenderParts
  readonly #timing: SenderTiming
  readonly #exporter: OTLPTraceExporter
  readonly #batches: BatchSpanProcessor
  readonly #agent: HttpAgent
  readonly #responses: CollectorResponses
  #waiting = 0
  /** Why the last batch was not accepted. */
  #problem: string | undefined
  #lostUnlogged = 0
  /** Whether the log says that spans are being lost. */
  #isReported = false
  #nextLogMs = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(parts: SpanSenderParts) {
    this.#parts = parts
    this.#timing = parts.timing ?? TIMING
    this.#agent = parts.url.protocol === 'https:' ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true })
    this.#responses = new CollectorResponses(this.#agent, MAX_RESPONSE_BYTES)
    this.#exporter = new OTLPTraceExporter({
      url: `${parts.url.href.replace(/\/+$/, '')}/v1/traces`,
      timeoutMillis: this.#timing.timeoutMs,
      concurrencyLimit: MAX_WAITING / MAX_BATCH,
      httpAgentOptions: () => this.#agent,
      userAgent: `edge/${VERSION}`,
    })
    this.#batches = new BatchSpanProcessor({
      exporter: { export: (spans, onResult) => this.#export(spans, onResult), shutdown: () => this.#exporter.shutdown() },
      maxQueueSize: MAX_WAITING,
      maxExportBatchSize: MAX_BATCH,
      scheduledDelayMillis: this.#timing.gatherMs,
      exportTimeoutMillis: 2 * this.#timing.cutMs,
    })
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#waiting >= MAX_WAITING) return this.#noteLost(1)
    this.#waiting++
    this.#batches.onEnd(span)
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush()
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown()
  }

  /** Sends the remaining spans, as far as time allows. */
  async close(withinMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const timeIsUp = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs)
    })
    await Promise.race([this.shutdown().catch(() => {}), timeIsUp]) // failures have been noted
    clearTimeout(timer)
    this.#isClosed = true
    this.#agent.destroy()
    this.#responses.close()
    if (this.#waiting > 0) this.#lose(this.#waiting, this.#problem ?? 'shutdown left no time to send them')
  }

  #export(spans: ReadableSpan[], onResult: (result: ExportResult) => void): void {
    const cut = setInterval(() => this.#agent.destroy(), this.#timing.cutMs).unref()
    const onEnd = (result: ExportResult): void => {
      clearInterval(cut)
      if (!this.#isClosed) this.#note(spans.length, result)
      onResult(result)
    }
    try {
      this.#exporter.export(spans, onEnd)
    } catch (error) {
      onEnd({ code: ExportResultCode.FAILED, error: error as Error })
    }
  }

  #note(spans: number, { code, error }: ExportResult): void {
    if (code !== ExportResultCode.SUCCESS) return this.#lose(spans, this.#reasonOf(error))
    const { sent, logger, url } = this.#parts
    this.#waiting -= spans
    sent.count += spans
    this.#problem = undefined
    if (!this.#isReported) return
    this.#isReported = false
    logger.info({ event: 'traces_sent_again', url: url.origin }, 'EDGE_OTLP_URL accepts traces again')
  }

  #lose(spans: number, reason: string): void {
    this.#waiting -= spans
    this.#problem = reason
    this.#noteLost(spans)
  }

  #noteLost(spans: number): void {
    const { dropped, logger, url, nowMs } = this.#parts
    dropped.count += spans
    this.#lostUnlogged += spans
    if (nowMs() < this.#nextLogMs) return
    const reason = this.#problem ?? 'too many spans were waiting to be sent'
    logger.warn(
      { event: 'traces_not_sent', url: url.origin, reason, lost: this.#lostUnlogged },
      'traces were not sent to EDGE_OTLP_URL and are lost',
    )
    this.#nextLogMs = nowMs() + this.#timing.logMs
    this.#lostUnlogged = 0
    this.#isReported = true
  }

  /** For a response, only its status is reported, since its text comes from the collector. */
  #reasonOf(error: Error | undefined): string {
    if (error === undefined) return 'it did not accept them'
    return error.name === STATUS_ERROR ? `it returned ${this.#responses.status}` : this.#parts.explain(error)
  }
}

/** Diagnostics channel on which Node publishes the head of each response, before its body is read. */
const CHANNEL = 'http.client.response.finish'

interface ResponseMessage {
  readonly request: ClientRequest & { readonly agent?: Agent }
  readonly response: IncomingMessage
}

/** Watches the responses to an agent's requests, which the exporter sends and reads by itself, and cuts off those that are too long. */
class CollectorResponses {
  /** Status of the last response. */
  status: number | undefined
  readonly #agent: Agent
  readonly #maxBytes: number
  readonly #onMessage = (message: unknown): void => this.#watch(message as ResponseMessage)

  constructor(agent: Agent, maxBytes: number) {
    this.#agent = agent
    this.#maxBytes = maxBytes
    subscribe(CHANNEL, this.#onMessage)
  }

  close(): void {
    unsubscribe(CHANNEL, this.#onMessage)
  }

  #watch({ request, response }: ResponseMessage): void {
    if (request.agent !== this.#agent) return
    this.status = response.statusCode
    let bytes = 0
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > this.#maxBytes) response.destroy(new Error(`its response has more than ${this.#maxBytes} bytes`))
    })
  }
}
