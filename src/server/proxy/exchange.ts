import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Backend } from '../backend/backend.ts'
import type { BackendCall, BackendHandler } from '../backend/backend-call.ts'
import { BackendFailure } from '../backend/backend-failure.ts'
import type { ResponseHead } from '../backend/response-head.ts'
import type { BackendMetrics } from '../metrics/backend-metrics.ts'
import type { HeaderList } from '../respond.ts'
import { DepartureWatch } from './departure-watch.ts'
import { requestHead, responseFields, trailerFields } from './forwarded-fields.ts'
import { type AnswerFlow, type LlmAnswer, type LlmAnswerParts, newLlmAnswer } from './llm-answer.ts'
import type { Peer } from './peer.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import type { ReadBody } from './request-body.ts'
import { tunnel } from './tunnel.ts'

export interface ExchangeParts {
  readonly backend: Backend
  readonly metrics: BackendMetrics
  readonly nowMs: () => number
  /** Answers a client whose request got no answer. */
  readonly onFailure: (failure: BackendFailure) => void
}

export interface AllowedRequest {
  readonly request: ProxiedRequest
  readonly peer: Peer
  readonly res: ServerResponse
  /** The decision's fields, for the answer. */
  readonly fields: HeaderList
  /** The body, or the first part of it, where it was read for an estimate. */
  readonly body: Pick<ReadBody, 'bytes' | 'isPartial'> | undefined
  /** What it takes to settle, where tokens were reserved. */
  readonly llm: LlmAnswerParts | undefined
  /** What a WebSocket's client sent behind its first request. */
  readonly early: Buffer | undefined
  readonly host: string
  readonly target: string
}

/** One allowed request on its way to the backend, and the answer on its way back. */
export class Exchange implements BackendHandler, AnswerFlow {
  readonly #parts: ExchangeParts
  readonly #allowed: AllowedRequest
  readonly #startMs: number
  readonly #departure: DepartureWatch
  #call: BackendCall | undefined
  #answer: LlmAnswer | undefined
  #head: ResponseHead | undefined
  /** Bytes for the client that wait for company: an answer that came in one piece leaves in one. */
  #held: Buffer | undefined
  #hasWritten = false
  /** The client does not take more for now. */
  #isBlocked = false
  #isOver = false

  constructor(parts: ExchangeParts, allowed: AllowedRequest) {
    const { request, peer, res, body, llm } = allowed
    this.#parts = parts
    this.#allowed = allowed
    this.#startMs = parts.nowMs()
    parts.metrics.openRequests++
    res.on('close', () => this.#onClientClose())
    res.on('drain', () => this.#onClientDrain())
    this.#departure = new DepartureWatch(request.req.socket, res)
    const asksForIdentity = llm?.settlement.reservation.holds.some(({ rule }) => !rule.policy.isShadow) ?? false
    const whole = body?.isPartial === false ? body.bytes : undefined
    const head = requestHead(request, peer, { host: allowed.host, target: allowed.target, bodyLength: whole?.length, asksForIdentity })
    const streamed = request.isChunked ? 'chunked' : request.hasBody ? 'by_length' : undefined
    this.#call = parts.backend.send({ method: request.method, head, body: whole ?? streamed, isUpgrade: request.isUpgrade }, this)
  }

  onReady(call: BackendCall): void {
    const { request, body } = this.#allowed
    const { req } = request
    req.on('data', (chunk: Buffer) => {
      if (!call.write(chunk)) req.pause()
    })
    if (body === undefined || call.write(body.bytes)) req.resume()
    req.on('end', () => {
      // After the answer, Node keeps its own time for the connection.
      if (!this.#isOver) req.setTimeout(0)
      call.endBody()
    })
    // A client that stops in the middle of its body is not waited for for ever.
    if (!req.complete) req.setTimeout(this.#parts.backend.options.idleTimeoutMs)
  }

  onDrain(): void {
    this.#allowed.request.req.resume()
  }

  onRetry({ code }: BackendFailure): void {
    this.#parts.metrics.countRetry(code)
  }

  onInterim(head: ResponseHead): void {
    const { res, request } = this.#allowed
    // 100 was answered by us; HTTP/1.0 knows no interim answers; one that waits its turn in a pipeline has no socket yet.
    if (head.status === 100 || request.req.httpVersion === '1.0' || res.socket === null) return
    const fields = responseFields(head.fields, { ours: [], keepsLength: false, keepsTrailers: false, isDecoded: false })
    res.socket.write(`${headText(head, fields)}\r\n`, 'latin1')
  }

  onHead(head: ResponseHead): void {
    this.#parts.metrics.countResponse(head.status, this.#parts.nowMs() - this.#startMs)
    this.#head = head
    if (head.status === 101) return
    const { res, request, llm, fields } = this.#allowed
    if (llm !== undefined) this.#answer = newLlmAnswer(head, llm, this)
    const { isFiltered = false, isDecoded = false } = this.#answer ?? {}
    const hasBody = request.method !== 'HEAD' && head.status !== 204 && head.status !== 304
    // RFC 9110 8.6: 204 has no length
    const keepsLength = head.status !== 204 && !(isFiltered && hasBody)
    const keepsTrailers = head.isChunked && hasBody && request.req.httpVersion === '1.1'
    res.writeHead(head.status, head.reason, responseFields(head.fields, { ours: fields, keepsLength, keepsTrailers, isDecoded }))
    this.#departure.onHead(() => this.#answer?.isBetweenEvents ?? false)
  }

  onData(chunk: Buffer): void {
    if (this.#answer === undefined) this.deliver(chunk)
    else this.#answer.read(chunk)
  }

  onQuiet(): void {
    this.quiet()
  }

  onEnd(trailers: readonly string[]): void {
    if (this.#answer === undefined) this.#finish(trailers)
    else this.#answer.end(() => this.#finish(trailers))
  }

  /** RFC 9110 7.8: the backend speaks WebSocket from here on. */
  onUpgraded(socket: Socket, rest: Buffer): void {
    const { request, res, fields, early, llm } = this.#allowed
    const client = request.req.socket
    const { metrics } = this.#parts
    this.#over()
    // Nothing of what follows is counted.
    llm?.settlement.settle('done', { prompt: llm.request.promptTokens, completion: 0 })
    res.detachSocket(client)
    const head = this.#head!
    const kept = responseFields(head.fields, { ours: fields, keepsLength: false, keepsTrailers: false, isDecoded: false })
    client.write(`${headText(head, kept)}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 'latin1')
    if (rest.length > 0) client.write(rest)
    if (early !== undefined && early.length > 0) socket.write(early)
    metrics.openTunnels++
    tunnel(client, socket, () => metrics.openTunnels--)
  }

  onFailure(failure: BackendFailure): void {
    if (this.#isOver) return
    const { res } = this.#allowed
    // It was the client that took nothing for so long.
    if (this.#isBlocked && failure.code === 'backend_timeout') return void res.destroy()
    this.#over()
    if (this.#answer !== undefined) this.#answer.backendFailed()
    else this.#allowed.llm?.settlement.giveBack('backend_failed')
    this.#parts.onFailure(failure)
  }

  deliver(bytes: Buffer): void {
    if (this.#held !== undefined) this.#flush()
    this.#held = bytes
  }

  quiet(): void {
    if (this.#isOver || this.#head === undefined) return
    if (this.#held !== undefined) this.#flush()
    // The head does not wait for the body. An empty write sends it as it is; flushHeaders would encode it twice.
    else if (!this.#hasWritten) this.#write(EMPTY)
  }

  cut(): void {
    this.#call?.abort()
    this.#finish([])
  }

  fail(error: Error): void {
    this.#call?.abort()
    this.onFailure(new BackendFailure('backend_invalid', 'its body is not what Content-Encoding says', error))
  }

  pauseBackend(): void {
    this.#call?.pause()
  }

  resumeBackend(): void {
    if (!this.#isBlocked) this.#call?.resume()
  }

  #flush(): void {
    const bytes = this.#held!
    this.#held = undefined
    this.#write(bytes)
  }

  #write(bytes: Buffer): void {
    this.#hasWritten = true
    if (this.#allowed.res.write(bytes) || this.#isBlocked) return
    this.#isBlocked = true
    this.#call?.pause()
    this.#answer?.pause()
  }

  #finish(trailers: readonly string[]): void {
    if (this.#isOver) return
    const { res } = this.#allowed
    this.#over()
    if (trailers.length > 0) res.addTrailers(trailerFields(trailers))
    res.end(this.#held)
  }

  #onClientDrain(): void {
    this.#isBlocked = false
    this.#call?.resume()
    this.#answer?.resume()
  }

  #onClientClose(): void {
    if (this.#isOver) return
    this.#parts.metrics.clientAborts++
    this.#call?.abort()
    this.#over()
    const { llm } = this.#allowed
    if (this.#answer !== undefined) this.#answer.clientGone()
    else llm?.settlement.settle('client_gone', { prompt: llm.request.promptTokens, completion: 0 })
  }

  #over(): void {
    this.#isOver = true
    this.#departure.end()
    this.#parts.metrics.openRequests--
  }
}

const EMPTY = Buffer.alloc(0)

/** A head as the wire carries it, its blank line left out. */
function headText({ status, reason }: ResponseHead, fields: HeaderList): string {
  let text = `HTTP/1.1 ${status} ${reason}\r\n`
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  return text
}
