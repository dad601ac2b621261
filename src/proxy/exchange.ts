import type { Socket } from 'node:net'
import type { BackendMetrics } from '../telemetry/metrics/backend-metrics.ts'
import { type AllowedRequest, backendRequest, ownFields } from './allowed-request.ts'
import type { Backend } from './backend/backend.ts'
import { BackendCall, type BackendHandler, type BackendRequest } from './backend/backend-call.ts'
import { BackendFailure, coolingFailure, noBodyMemory } from './backend/backend-failure.ts'
import { hasBody, type ResponseHead } from './backend/response-head.ts'
import type { AttemptOutcome } from './backends/attempt-plan.ts'
import type { BodyMemory } from './body/body-memory.ts'
import { HeldBody } from './body/held-body.ts'
import type { ReadBody } from './body/request-body.ts'
import { Upload } from './body/upload.ts'
import { ClientResponse, responseFields, WITHOUT_BODY } from './client-response.ts'
import { DepartureWatch } from './departure-watch.ts'
import type { Downstream, DownstreamListener } from './downstream.ts'
import { type LlmResponse, type ResponseFlow, settleUnanswered } from './llm/llm-response.ts'
import type { OpenStream, OpenStreams } from './llm/open-streams.ts'
import { newLlmResponse, StreamedResponse } from './llm/streamed-response.ts'
import { tunnel } from './tunnel.ts'

export interface ExchangeParts {
  /** `EDGE_BACKEND_URL`; undefined if there is none. */
  readonly backend: Backend | undefined
  readonly idleTimeoutMs: number
  readonly metrics: BackendMetrics
  readonly bodyMemory: BodyMemory
  readonly openStreams: OpenStreams
  readonly nowMs: () => number
  /** Responds to a client whose request got no response from the backend, or not the whole of it. */
  readonly onFailure: (downstream: Downstream, failure: BackendFailure, fields: string) => void
  /** Responds to a client whose key was revoked before all of the response had come. */
  readonly onRevoked: (downstream: Downstream) => void
  /** Called when our own code threw an error. Without a downstream, the client has the whole response and may be in the middle of its next request. */
  readonly onBroken: (downstream: Downstream | undefined, error: unknown) => void
}

/**
 * One allowed request on its way to the backend, and the response on its way back. It is over when the whole response was handed to the client,
 * when another response is sent instead, or when the client is gone. The first of these counts; whatever comes later is ignored.
 */
export class Exchange implements BackendHandler, ResponseFlow, DownstreamListener {
  readonly #parts: ExchangeParts
  readonly #onFree: (exchange: Exchange) => void
  #call: BackendCall
  readonly #response = new ClientResponse()
  #allowed!: AllowedRequest
  #startMs = 0
  /** Set when the backend's head has arrived, if the response costs tokens. */
  #llmResponse: LlmResponse | undefined
  /** What was read of the body for an estimate, until no retry can need it. */
  readonly #body: HeldBody
  /** Set once the rest of the body is passed on. */
  #upload: Upload | undefined
  /** Set once the client has ended its side. */
  #departure: DepartureWatch | undefined
  /** Set while the response is a stream, or the connection a tunnel. */
  #openStream: OpenStream | undefined
  #isOver = true
  /** The whole response has been handed to the client. */
  #hasResponded = false
  /** Something of a response has been sent to the client, so the request stays with its backend. */
  #hasAnswered = false
  /** The call no longer needs the body; another attempt might. */
  #isBodyWritten = false

  /** `onFree` is called when nobody refers to the exchange any more, so that it may be reused. */
  constructor(parts: ExchangeParts, onFree: (exchange: Exchange) => void) {
    this.#parts = parts
    this.#onFree = onFree
    this.#call = new BackendCall(this)
    this.#body = new HeldBody(parts.bodyMemory)
  }

  /** `body` is what was read of the body for an estimate. The exchange releases it. */
  begin(allowed: AllowedRequest, body: ReadBody | undefined): void {
    const { request, downstream } = allowed
    const { idleTimeoutMs, metrics, nowMs } = this.#parts
    this.#allowed = allowed
    this.#body.keep(body)
    this.#startMs = nowMs()
    this.#isOver = false
    this.#hasResponded = false
    this.#hasAnswered = false
    this.#response.open(downstream, request)
    metrics.openRequests.count++
    this.#parts.openStreams.expect(this, allowed.caller)
    downstream.listener = this
    downstream.limitStall(idleTimeoutMs)
    if (downstream.hasEnded) this.onClientEnded()
    if (allowed.attempts === undefined || allowed.attempts.begin() === 'begun') this.#send()
    else this.#failCooling(allowed.attempts.retryAfterMs)
  }

  #send(): void {
    const { attempts, llm, plan } = this.#allowed
    const { backend: lastResort } = this.#parts
    const backend = attempts === undefined ? lastResort! : attempts.backend
    const { url } = backend.options
    this.#isBodyWritten = false
    const isOneOfSeveral = (plan?.routing?.backends.size ?? 0) + (lastResort === undefined ? 0 : 1) > 1
    if (isOneOfSeveral && !this.#body.moveTo(url)) return this.onFailure(noBodyMemory())
    if (attempts !== undefined) llm?.settlement.noteCall(attempts.choice)
    let outgoing: BackendRequest
    try {
      outgoing = backendRequest(this.#allowed, this.#body.read, url)
    } catch (error) {
      return this.onBroken(error)
    }
    this.#call.send(backend, outgoing)
  }

  #failCooling(retryAfterMs: number): void {
    this.#fail()
    this.#parts.onFailure(this.#allowed.downstream, coolingFailure(retryAfterMs), ownFields(this.#allowed))
  }

  /** Sends the request to the next backend of its route, if there is one and the request may still go there. */
  #retryElsewhere(outcome: AttemptOutcome, reason: string): boolean {
    const { attempts, request, downstream, llm } = this.#allowed
    const hasWholeBody = !request.hasBody || this.#body.read?.isPartial === false
    if (attempts?.retry(outcome, { isUpgrade: request.isUpgrade, hasAnswered: this.#hasAnswered, hasWholeBody }) !== true) return false
    if (outcome === 'timeout' && this.#call.isSent) llm?.settlement.noteLeftCall()
    this.#parts.metrics.countRetry(reason)
    downstream.trace?.leaveCall(reason)
    // What is left of the earlier response must reach nobody.
    this.#call.discard()
    this.#call = new BackendCall(this)
    this.#send()
    return true
  }

  onReady(): void {
    const { idleTimeoutMs } = this.#parts
    const source = this.#allowed.downstream.body
    if (!source.comesNext) this.#call.sendHeadSoon()
    this.#upload = new Upload(source, this.#call, idleTimeoutMs, this)
    const { read } = this.#body
    if (read === undefined || read.bytes.length === 0 || this.#upload.write(read.bytes)) this.#body.release()
  }

  onClientAwaited(isAwaited: boolean): void {
    this.#allowed.attempts?.noteUpload(isAwaited)
  }

  onDrain(): void {
    if (this.#isOver || this.#upload === undefined) return
    // The part of the body that was read has been sent, and cannot be sent again.
    this.#body.release()
    this.#upload.goOn()
  }

  onBodyWritten(): void {
    this.#isBodyWritten = true
    if (this.#allowed.attempts?.mayRepeat !== true || this.#hasAnswered) this.#body.release()
  }

  onRetry({ code }: BackendFailure): void {
    this.#parts.metrics.countRetry(code)
    this.#allowed.downstream.trace?.noteRetry(code)
  }

  onInterim(head: ResponseHead): void {
    const { downstream, fields: ours } = this.#allowed
    // We send 100 Continue ourselves.
    if (head.status === 100) return
    this.#hasAnswered = true
    downstream.interim(head.status, head.reason, responseFields(head, { ...WITHOUT_BODY, ours, isInterim: true }))
  }

  onHead(head: ResponseHead): void {
    const { metrics, nowMs } = this.#parts
    const { llm, request, downstream, attempts } = this.#allowed
    downstream.trace?.noteResponse(head.status)
    metrics.countResponse(head.status, nowMs() - this.#startMs)
    if (attempts !== undefined) {
      attempts.answered(head)
      if (this.#retryElsewhere(head.status, 'status')) return
      this.#hasAnswered = true
      if (this.#isBodyWritten) this.#body.release()
    }
    if (llm !== undefined && head.status !== 101) this.#llmResponse = newLlmResponse(head, hasBody(request.method, head.status), llm, this)
    this.#response.begin(head, this.#llmResponse, ownFields(this.#allowed))
    if (head.isEventStream && hasBody(request.method, head.status)) this.#watchStream(() => this.#cutStream())
  }

  relaysChunks(): boolean {
    return !this.#isOver && this.#response.relaysChunks()
  }

  onData(bytes: Buffer): void {
    if (this.#llmResponse === undefined) this.deliver(bytes)
    else this.#llmResponse.read(bytes)
  }

  onQuiet(): void {
    this.flush()
  }

  /** The call has ended in order, so the exchange may be reused, unless something may still call back. */
  onDone(): void {
    // The reader of an LLM response, or the watch of a half-closed client, may still call back.
    if (!this.#isOver || this.#allowed.llm !== undefined || this.#departure !== undefined) return
    this.#upload = undefined
    this.#onFree(this)
  }

  onEnd(trailers: readonly string[]): void {
    if (this.#llmResponse === undefined) this.#finish(trailers)
    else {
      this.#llmResponse.end(() => this.#finish(trailers))
      if (!this.#isOver) this.#response.keep()
    }
  }

  /** The backend speaks WebSocket from here on (RFC 9110 7.8). */
  onUpgraded(head: ResponseHead, socket: Socket, rest: Buffer): void {
    const { downstream, llm, held } = this.#allowed
    const { metrics } = this.#parts
    this.#leave()
    // Nothing that goes through a tunnel is counted.
    llm?.settlement.noteHead(head.status)
    llm?.settlement.keepReservation('done')
    const ours = `${ownFields(this.#allowed)}Connection: Upgrade\r\nUpgrade: websocket\r\n`
    const fields = responseFields(head, { ...WITHOUT_BODY, ours })
    const client = downstream.upgrade(head.status, head.reason, fields)
    // A tunnel may last for days, and a span is sent only when it ends.
    downstream.trace?.end()
    if (rest.length > 0) client.socket.write(rest)
    if (client.early.length > 0) socket.write(client.early)
    metrics.openTunnels.count++
    tunnel(client.socket, socket, () => {
      metrics.openTunnels.count--
      this.#forgetStream()
      held?.release()
    })
    this.#watchStream(() => socket.destroy())
  }

  onFailure(failure: BackendFailure): void {
    if (this.#isOver) return
    const { downstream, attempts } = this.#allowed
    if (attempts !== undefined && this.#retryElsewhere(attempts.failed(failure, this.#call), failure.code)) return
    if (this.#response.isBlocked && failure.code === 'backend_timeout') {
      // The client was the one that took nothing for so long.
      this.onClientGone()
      return downstream.cut()
    }
    this.#fail(failure.code === 'backend_timeout' && this.#call.isSent)
    this.#parts.onFailure(downstream, failure, ownFields(this.#allowed))
  }

  onBroken(error: unknown): void {
    const { downstream, held } = this.#allowed
    if (this.#hasResponded) return this.#parts.onBroken(undefined, error)
    if (this.#isOver) downstream.cut()
    else this.#fail()
    // An upgrade that failed has no tunnel that would release the holds.
    held?.release()
    this.#parts.onBroken(downstream, error)
  }

  onClientDrained(): void {
    this.#response.isBlocked = false
    if (this.#llmResponse?.isWaiting !== true) this.#call.resume()
    this.#llmResponse?.resume()
  }

  onClientEnded(): void {
    this.#departure ??= new DepartureWatch(this.#allowed.downstream, () => this.#llmResponse?.isBetweenEvents ?? false)
  }

  onClientGone(): void {
    if (this.#isOver) return
    this.#parts.metrics.clientAborts.count++
    this.#call.abort()
    this.#end()
    const { llm, downstream } = this.#allowed
    try {
      if (this.#llmResponse !== undefined) this.#llmResponse.clientGone()
      else if (llm !== undefined) settleUnanswered(llm)
    } catch (error) {
      llm?.settlement.keepReservation('client_gone')
      this.#parts.onBroken(downstream, error)
    }
    downstream.trace?.noteGone()
    // What was sent may still be decoded.
    if (llm?.settlement.isSettled === false) downstream.trace?.endWhenSettled()
    else downstream.trace?.end()
  }

  /** The key of the request was revoked. The backend may have worked for it, as for a client that leaves. */
  endRevoked(): void {
    this.onClientGone()
    this.#parts.onRevoked(this.#allowed.downstream)
  }

  deliver(bytes: Buffer | string): void {
    if (!this.#isOver && !this.#response.add(bytes)) this.#pause()
  }

  flush(): void {
    if (!this.#isOver && !this.#response.flush()) this.#pause()
  }

  cut(): void {
    const isWhole = !this.#response.hasKnownLength && !this.#call.isInsideRelayedChunk
    this.#call.abort()
    if (isWhole) return this.#finish([])
    // The response is incomplete, and the client must not take it for the whole.
    this.#end()
    this.#allowed.downstream.trace?.end()
    this.#allowed.downstream.reset()
  }

  failDamaged(error: Error): void {
    this.#call.abort()
    this.onFailure(new BackendFailure('backend_invalid', 'its body does not match its Content-Encoding', error))
  }

  abandon(error: unknown): void {
    this.#call.abort()
    this.onBroken(error)
  }

  pauseBackend(): void {
    this.#call.pause()
  }

  holdBackend(): void {
    this.#call.hold()
  }

  resumeBackend(): void {
    if (!this.#response.isBlocked) this.#call.resume()
  }

  /** Lets a block end the stream from now on. */
  #watchStream(cut: () => void): void {
    const { request, view, body, plan, caller } = this.#allowed
    this.#openStream = { view, body: body ?? (request.hasBody ? 'unread' : undefined), caller, cut }
    this.#parts.openStreams.add(this.#openStream, plan)
  }

  #forgetStream(): void {
    if (this.#openStream !== undefined) this.#parts.openStreams.delete(this.#openStream)
    this.#openStream = undefined
  }

  #cutStream(): void {
    if (this.#isOver) return
    if (this.#llmResponse instanceof StreamedResponse) this.#llmResponse.cut()
    else this.cut()
  }

  /** To be called when the client takes no more for now. */
  #pause(): void {
    this.#call.pause()
    this.#llmResponse?.pause()
  }

  #finish(trailers: readonly string[]): void {
    if (this.#isOver) return
    const { downstream, request, llm } = this.#allowed
    this.#response.sendHead()
    this.#end()
    if (request.hasBody) downstream.dropBody(this.#parts.idleTimeoutMs)
    this.#response.end(trailers)
    this.#hasResponded = true
    if (llm?.settlement.isSettled === false) downstream.trace?.endWhenSettled()
    else downstream.trace?.end()
  }

  /** `isUnfinished` says that the backend has the whole request and did not answer in time. */
  #fail(isUnfinished = false): void {
    this.#end()
    if (this.#llmResponse !== undefined) this.#llmResponse.backendFailed()
    else if (isUnfinished) this.#allowed.llm?.settlement.settleUnfinished()
    else this.#allowed.llm?.settlement.giveBack('backend_failed')
  }

  #end(): void {
    this.#leave()
    this.#allowed.held?.release()
  }

  /** Ends the exchange, and the request with it, unless that goes on as a tunnel. */
  #leave(): void {
    this.#isOver = true
    this.#forgetStream()
    this.#parts.openStreams.forget(this)
    this.#body.release()
    this.#departure?.end()
    this.#upload?.drop()
    this.#allowed.attempts?.end()
    this.#allowed.downstream.listener = undefined
    this.#parts.metrics.openRequests.count--
  }
}
