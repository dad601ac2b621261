import type { IncomingMessage, ServerResponse } from 'node:http'
import { RESERVATION_FIELD } from '../../decide/decision-answer.ts'
import type { SettlementRecorder } from '../../decide/settlement-recorder.ts'
import { headerValue } from '../../http1/header-fields.ts'
import { readWholeBody } from '../../listen/node-http/read-body.ts'
import { RequestTurns } from '../../listen/node-http/request-turns.ts'
import type { Route } from '../../listen/node-http/routes.ts'
import { type Reservations, SETTLE_ERRORS, type SettleError, type SettleOutcome } from '../../reservations/reservations.ts'
import { readSettlement, type SettlementRequest, usageOf } from '../settlement-request.ts'

const MAX_BODY_BYTES = 64 * 1024

const ERRORS: Readonly<Record<Exclude<SettleOutcome, 'settled'>, SettleError>> = {
  malformed: 'bad_reservation',
  expired: 'expired_reservation',
  already: 'already_settled',
  unavailable: 'store_unavailable',
  unknown: 'settlement_unknown',
}

/** POST /v1/settle, by which a gateway reports what a request has used, or that it is still in flight. */
export class SettleEndpoint implements Route {
  readonly path = '/v1/settle'
  readonly methods = ['POST']
  readonly #reservations: Reservations
  readonly #recorder: SettlementRecorder
  readonly #turns = new RequestTurns()

  constructor(reservations: Reservations, recorder: SettlementRecorder) {
    this.#reservations = reservations
    this.#recorder = recorder
  }

  handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    return new Promise((resolve) => {
      this.#turns.take(req, res, () => void this.#handle(req, res).then(resolve, (error: unknown) => resolve(this.#fail(res, error))))
    })
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (isEncoded(req)) return this.#refuse(res, 'unsupported_media_type')
    if (req.headers.expect !== undefined) res.writeContinue()
    const body = await readWholeBody(req, MAX_BODY_BYTES)
    if (body === 'gone') return
    if (body === 'too_large') {
      const tooLarge = `the body: expected at most ${MAX_BODY_BYTES} bytes`
      if (!req.complete) res.shouldKeepAlive = false
      return this.#refuse(res, 'settlement_too_large', tooLarge)
    }
    const settlement = readSettlement(body.toString())
    if (typeof settlement === 'string') return this.#refuse(res, 'bad_settlement', settlement)
    await this.#settle(res, settlement)
  }

  async #settle(res: ServerResponse, settlement: SettlementRequest): Promise<void> {
    const { reservation, isRenewal } = settlement
    if (isRenewal) {
      const renewed = await this.#reservations.renew(reservation)
      if (typeof renewed === 'string') return this.#refuse(res, ERRORS[renewed])
      this.#recorder.onSettled('renewed')
      return respondDone(res, [RESERVATION_FIELD, renewed.token])
    }
    const outcome = await this.#reservations.settle(reservation, usageOf(settlement))
    if (outcome !== 'settled') return this.#refuse(res, ERRORS[outcome])
    this.#recorder.onSettled('settled')
    respondDone(res, [])
  }

  /** A settlement is not a question, so its failure does not count as a refused decision. */
  #fail(res: ServerResponse, error: unknown): void {
    this.#recorder.logFailure(error)
    if (res.headersSent) res.destroy()
    else this.#refuse(res, 'internal_error')
  }

  #refuse(res: ServerResponse, code: SettleError, message: string = SETTLE_ERRORS[code].meaning): void {
    this.#recorder.onSettled(code)
    const { status } = SETTLE_ERRORS[code]
    const type = status < 500 ? 'invalid_request_error' : 'service_unavailable'
    const body = JSON.stringify({ error: { message, type, code } })
    const length = String(Buffer.byteLength(body))
    res.writeHead(status, [
      'X-Edge-Reason',
      code,
      'Content-Type',
      'application/json',
      'Content-Length',
      length,
      'Cache-Control',
      'no-store',
    ])
    res.end(body)
  }
}

/** Whether the body is compressed. Its Content-Type is not checked: tools that send JSON often declare another type. */
function isEncoded({ rawHeaders }: IncomingMessage): boolean {
  const coding = headerValue(rawHeaders, 'content-encoding')
  return coding !== undefined && coding.toLowerCase() !== 'identity'
}

function respondDone(res: ServerResponse, headers: string[]): void {
  res.writeHead(204, [...headers, 'Cache-Control', 'no-store']).end()
}
