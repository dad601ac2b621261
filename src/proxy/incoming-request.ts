import type { ReadCost, UnreadBody } from '../decide/decide-in-steps.ts'
import type { AskedRequest } from '../decide/request-explanation.ts'
import type { RouteProblem } from '../engine/decision.ts'
import { headerValue } from '../http1/header-fields.ts'
import { KNOWN_METHODS } from '../http1/request-line.ts'
import type { PlannedRoute } from '../policy/routes/routing.ts'
import type { RequestView } from '../request/view.ts'
import type { WorkSlices } from '../time/slices.ts'
import { routeProblem } from './backends/routed-request.ts'
import { type BodyCost, readCost } from './body/body-cost.ts'
import type { Peer, ReceivedHead } from './downstream.ts'
import { ProxiedRequest, ProxiedRequestView, refusalOf } from './proxied-request.ts'

/** A trusted peer that forwards a request for its client. Without X-Forwarded-For, the client's address is unknown. */
export const FORWARDER: Peer = { address: '', scheme: 'http', isTrusted: true }

/** Returns the path that all targets are appended to; it is empty if the backend's URL has no path, or there is none. */
export function basePathOf(url: URL | undefined): string {
  return url === undefined ? '' : url.pathname.replace(/\/+$/, '')
}

export interface AskedOptions {
  readonly peer: Peer
  readonly basePath: string
  /** Whether there is a backend for requests without a route. */
  readonly hasLastResort: boolean
  readonly maxBodyBytes: number
  readonly slices: WorkSlices
  /** The request had a body that nobody has kept: whether a model in it can be replaced is not known. */
  readonly isBodyUnknown?: boolean
}

/** Reads a request that did not come from a socket, as the proxy would. Returns what is wrong with it, in words, if it would be refused. */
export function readAsked(asked: AskedRequest, options: AskedOptions): { readonly view: RequestView; readonly body: AskedBody } | string {
  if (!KNOWN_METHODS.has(asked.method)) return 'the method is not known'
  const bytes = Buffer.from(asked.body ?? '')
  const request = ProxiedRequest.read(headOf(asked, bytes.length), true)
  if (typeof request === 'string') return request
  const refusal = refusalOf(request, options.basePath)
  return refusal ?? { view: new ProxiedRequestView(request, options.peer), body: new AskedBody(request, bytes, options) }
}

export class AskedBody implements UnreadBody {
  /** Set when the body has been read. */
  cost: BodyCost | undefined
  readonly #request: ProxiedRequest
  readonly #bytes: Buffer
  readonly #options: AskedOptions

  constructor(request: ProxiedRequest, bytes: Buffer, options: AskedOptions) {
    this.#request = request
    this.#bytes = bytes
    this.#options = options
  }

  get contentLength(): number | undefined {
    return this.#request.contentLength
  }

  async read(_isEnforced = true, isRouted = false): Promise<ReadCost> {
    const { maxBodyBytes: maxBytes, slices } = this.#options
    const basePath = isRouted ? '' : this.#options.basePath
    this.cost = await readCost(this.#bytes, this.#request, { slices, maxBytes, basePath })
    return this.cost
  }

  problemWith(route: PlannedRoute): RouteProblem | undefined {
    const body = this.cost === undefined ? undefined : { bytes: this.#bytes, isPartial: false, llm: this.cost }
    return routeProblem(this.#request, this.#options.isBodyUnknown === true ? { ...route, models: [] } : route, body)
  }
}

/** A client that names no host is taken to speak HTTP/1.0. */
function headOf({ method, uri, host, fields: given, body }: AskedRequest, length: number): ReceivedHead {
  const fields = [...(host === undefined ? [] : ['Host', host]), ...given]
  const hasLength = ['content-length', 'transfer-encoding'].some((name) => headerValue(fields, name) !== undefined)
  if (body !== undefined && !hasLength) fields.push('Content-Length', String(length))
  return { method, target: uri, version: headerValue(fields, 'host') === undefined ? '1.0' : '1.1', fields }
}
