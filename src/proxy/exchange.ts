import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { HeaderList } from '../http/header-list.ts'
import type { BackendMetrics } from '../telemetry/metrics/backend-metrics.ts'
import type { Backend } from './backend/backend.ts'
import { BackendCall, type BackendHandler } from './backend/backend-call.ts'
import { BackendFailure } from './backend/backend-failure.ts'
import type { ResponseHead } from './backend/response-head.ts'
import type { ClientConnection, ClientWatcher } from './client-connection.ts'
import { DepartureWatch } from './departure-watch.ts'
import type { LlmResponse, LlmResponseParts, ResponseFlow } from './llm-response.ts'
import { newLlmResponse } from './llm-response-factory.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import type { ReadBody } from './request-body.ts'
import { requestHead } from './request-head.ts'
import { headText, responseFields, trailerFields, WITHOUT_BODY } from './response-fields.ts'
import { type EarlyBytes, tunnel } from './tunnel.ts'
import { dropRest } from './unread-body.ts'
import { Upload } from './upload.ts'

export interface ExchangeParts {
  readonly backend: Backend
  readonly metrics: BackendMetrics
  readonly nowMs: () => number
  /** Answers a client whose request got no answer, or not the whole of it. */
  readonly onFailure: (res: ServerResponse, failure: BackendFailure, fields: HeaderList) => void
  /** Our own code failed. */
  readonly onBroken: (res: ServerResponse, error: unknown) => void
}

export interface AllowedRequest {
  readonly request: ProxiedRequest
  readonly client: ClientConnection
  readonly res: ServerResponse
  /** The decision's fields, for the answer. */
  readonly fields: HeaderList
  /** What it takes to settle, where tokens were reserved. */
  readonly llm: LlmResponseParts | undefined
  /** What a WebSocket's client sent behind its first request. */
  readonly early: EarlyBytes | undefined
  readonly host: string
  readonly target: string
}

/** One allowed request on its way to the backend, and the answer on its way back. */
export class Exchange implements BackendHandler, ResponseFlow, ClientWatcher {
  readonly #parts: ExchangeParts
  readonly #allowed: AllowedRequest
  readonly #startMs: number
  #departure: DepartureWatch | undefined
  #call: BackendCall | undefined
  #upload: Upload | undefined
  /** What was read of the body, until it can no longer be sent again. */
  #body: ReadBody | undefined
  #head: ResponseHead | undefined
  #llmResponse: LlmResponse | undefined
  /** Bytes for the client that wait for company: an answer that came in one piece leaves in one. */
  #held: Buffer | undefined
  #isHeadSent = false
  /** The client does not take more for now. */
  #isBlocked = false
  #stall: NodeJS.Timeout | undefined
  #isOver = false

  /** `body` is what was read of it for an estimate, and is released here. */
  constructor(parts: ExchangeParts, allowed: AllowedRequest, body: ReadBody | undefined) {
    const { request, client, llm } = allowed
    this.#parts = parts
    this.#allowed = allowed
    this.#body = body
    this.#startMs = parts.nowMs()
    parts.metrics.openRequests.count++
    client.watch(this)
    if (client.hasEnded) this.onClientEnd()
    const asksForIdentity = llm?.settlement.reservation.holds.some(({ rule }) => !rule.policy.isShadow) ?? false
    const whole = body?.isPartial === false ? body.bytes : undefined
    const { host, target } = allowed
    const head = requestHead(request, client.peer, { host, target, bodyLength: whole?.length, asksForIdentity })
    const streamed = request.isChunked ? 'chunked' : request.hasBody ? 'by_length' : undefined
    const { method, isUpgrade } = request
    this.#call = new BackendCall(parts.backend, { method, head, body: whole ?? streamed, isUpgrade }, this)
  }

  onReady(call: BackendCall): void {
    this.#upload = new Upload(this.#allowed.request.req, call, this.#parts.backend.options.idleTimeoutMs)
    const body = this.#body
    if (body === undefined || body.bytes.length === 0 || this.#upload.write(body.bytes)) this.#releaseBody()
  }

  onDrain(): void {
    // Of a body that was read in part, that part has gone out, and it is not sent again.
    if (this.#upload !== undefined) this.#releaseBody()
    this.#upload?.goOn()
  }

  onRetry({ code }: BackendFailure): void {
    this.#parts.metrics.countRetry(code)
  }

  onInterim(head: ResponseHead): void {
    const { res, request, fields: ours } = this.#allowed
    // 100 was answered by us; HTTP/1.0 knows no interim answers; a client that is gone has no socket.
    if (head.status === 100 || request.req.httpVersion === '1.0' || res.socket === null) return
    res.socket.write(`${headText(head, responseFields(head, { ...WITHOUT_BODY, ours, isInterim: true }))}\r\n`, 'latin1')
  }

  onHead(head: ResponseHead): void {
    this.#parts.metrics.countResponse(head.status, this.#parts.nowMs() - this.#startMs)
    this.#head = head
    this.#releaseBody()
    const { llm, request } = this.#allowed
    if (llm !== undefined && head.status !== 101) this.#llmResponse = newLlmResponse(head, hasBody(head, request), llm, this)
  }

  onData(chunk: Buffer): void {
    if (this.#llmResponse === undefined) this.deliver(chunk)
    else this.#llmResponse.read(chunk)
  }

  onQuiet(): void {
    this.flush()
  }

  onEnd(trailers: readonly string[]): void {
    if (this.#llmResponse === undefined) this.#finish(trailers)
    else this.#llmResponse.end(() => this.#finish(trailers))
  }

  /** RFC 9110 7.8: the backend speaks WebSocket from here on. */
  onUpgraded(socket: Socket, rest: Buffer): void {
    const { request, res, fields, early, llm } = this.#allowed
    const client = request.req.socket
    const { metrics } = this.#parts
    const head = this.#head!
    this.#over()
    // Nothing of what follows is counted.
    llm?.settlement.settle('done', { prompt: llm.request.promptTokens, completion: 0 })
    res.detachSocket(client)
    const kept = responseFields(head, { ...WITHOUT_BODY, ours: fields })
    client.write(`${headText(head, kept)}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 'latin1')
    if (rest.length > 0) client.write(rest)
    const said = early!.take()
    if (said.length > 0) socket.write(said)
    metrics.openTunnels.count++
    tunnel(client, socket, () => metrics.openTunnels.count--)
  }

  onFailure(failure: BackendFailure): void {
    if (this.#isOver) return
    const { res, fields, request } = this.#allowed
    if (this.#isBlocked && failure.code === 'backend_timeout') {
      // It was the client that took nothing for so long.
      this.onClientGone()
      request.req.socket.destroy()
      return
    }
    this.#giveBack()
    this.#parts.onFailure(res, failure, fields)
  }

  onBroken(error: unknown): void {
    const { res, request } = this.#allowed
    if (this.#isOver) request.req.socket.destroy()
    else this.#giveBack()
    this.#parts.onBroken(res, error)
  }

  onClientEnd(): void {
    const { request, res } = this.#allowed
    const isBetweenEvents = this.#isHeadSent ? () => this.#isBetweenEvents : undefined
    this.#departure ??= new DepartureWatch(request.req.socket, res, isBetweenEvents)
  }

  onClientGone(): void {
    if (this.#isOver) return
    this.#parts.metrics.clientAborts.count++
    this.#call?.abort()
    this.#over()
    const { llm, res } = this.#allowed
    try {
      if (this.#llmResponse !== undefined) this.#llmResponse.clientGone()
      else llm?.settlement.settle('client_gone', { prompt: llm.request.promptTokens, completion: 0 })
    } catch (error) {
      llm?.settlement.keepReservation('client_gone')
      this.#parts.onBroken(res, error)
    }
  }

  deliver(bytes: Buffer): void {
    if (this.#isOver) return
    if (this.#held !== undefined) this.#sendHeld()
    this.#held = bytes
  }

  flush(): void {
    if (this.#isOver || this.#head === undefined) return
    if (this.#held !== undefined) this.#sendHeld()
    // The head does not wait for the body. An empty write sends it as it is; flushHeaders would encode it twice.
    else if (!this.#isHeadSent) this.#write(EMPTY)
  }

  cut(): void {
    this.#call?.abort()
    this.#finish([])
  }

  failDamaged(error: Error): void {
    this.#call?.abort()
    this.onFailure(new BackendFailure('backend_invalid', 'its body is not what Content-Encoding says', error))
  }

  abandon(error: unknown): void {
    this.#call?.abort()
    this.onBroken(error)
  }

  pauseBackend(): void {
    this.#call?.pause()
  }

  resumeBackend(): void {
    if (!this.#isBlocked) this.#call?.resume()
  }

  #sendHeld(): void {
    const bytes = this.#held!
    this.#held = undefined
    this.#write(bytes)
  }

  #write(bytes: Buffer): void {
    this.#sendHead()
    if (this.#allowed.res.write(bytes) || this.#isBlocked) return
    this.#isBlocked = true
    this.#call?.pause()
    this.#llmResponse?.pause()
    this.#limitStall()
  }

  /** One that never reads is cut, also when the backend has long finished, and also if it goes on with its upload. */
  #limitStall(): void {
    const { idleTimeoutMs } = this.#parts.backend.options
    const { res, request } = this.#allowed
    if (idleTimeoutMs === 0) return
    if (this.#stall === undefined) res.once('close', () => clearTimeout(this.#stall))
    this.#stall = setTimeout(() => request.req.socket.destroy(), idleTimeoutMs)
  }

  /** Not before there is something to send behind it, or nothing more for now: until then a failure can still be told. */
  #sendHead(): void {
    if (this.#isHeadSent) return
    this.#isHeadSent = true
    const { res, request, fields } = this.#allowed
    const head = this.#head!
    const { isFiltered = false, isDecoded = false } = this.#llmResponse ?? {}
    // RFC 9110 8.6: 204 has no length
    const keepsLength = head.status !== 204 && !isFiltered
    const keepsTrailers = head.isChunked && hasBody(head, request) && request.req.httpVersion === '1.1'
    res.on('drain', () => this.#onClientDrain())
    res.writeHead(head.status, head.reason, responseFields(head, { ours: fields, isInterim: false, keepsLength, keepsTrailers, isDecoded }))
    this.#departure?.onHead(() => this.#isBetweenEvents)
  }

  #finish(trailers: readonly string[]): void {
    if (this.#isOver) return
    const { res, fields, request } = this.#allowed
    this.#sendHead()
    this.#over()
    if (request.hasBody) dropRest(request.req, res, this.#parts.backend.options.idleTimeoutMs)
    if (trailers.length > 0) res.addTrailers(trailerFields(trailers, this.#head!, fields))
    res.end(this.#held)
    this.#held = undefined
  }

  #giveBack(): void {
    this.#over()
    if (this.#llmResponse !== undefined) this.#llmResponse.backendFailed()
    else this.#allowed.llm?.settlement.giveBack('backend_failed')
  }

  #releaseBody(): void {
    this.#body?.release()
    this.#body = undefined
  }

  get #isBetweenEvents(): boolean {
    return this.#llmResponse?.isBetweenEvents ?? false
  }

  #onClientDrain(): void {
    this.#isBlocked = false
    clearTimeout(this.#stall)
    this.#call?.resume()
    this.#llmResponse?.resume()
  }

  #over(): void {
    this.#isOver = true
    this.#releaseBody()
    this.#departure?.end()
    this.#upload?.drop()
    this.#allowed.client.unwatch(this)
    this.#parts.metrics.openRequests.count--
  }
}

function hasBody({ status }: ResponseHead, { method }: ProxiedRequest): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

const EMPTY = Buffer.alloc(0)
