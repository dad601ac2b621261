import { type Door, hintedBody, type Question } from '../../decide/question.ts'
import { type AskedRequest, type ExplainRequest, explainDecision, explainRefusal } from '../../decide/request-explanation.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Reason } from '../../engine/reasons.ts'
import { cookieHeader, fieldValue } from '../../http1/header-fields.ts'
import { originForm } from '../../listen/node-http/routes.ts'
import type { FieldValue, RequestView } from '../../request/view.ts'
import { DECISION, hostEnd, hostStart, type QuestionShape } from '../question-shapes.ts'

/** The parts of `node:http`'s request that questions need. */
export interface HttpRequest {
  readonly method?: string | undefined
  /** The request target. */
  readonly url?: string | undefined
  readonly rawHeaders: readonly string[]
}

/** A question that `node:http` has read. */
export class HttpQuestion implements Question, RequestView {
  readonly #shape: QuestionShape
  readonly #req: HttpRequest
  method = ''
  uri = ''
  host = ''

  constructor(shape: QuestionShape, req: HttpRequest) {
    this.#shape = shape
    this.#req = req
  }

  get door(): Door {
    return this.#shape.door
  }

  original(): RequestView | Reason {
    const { method, uri, host } = this.#shape
    const { rawHeaders } = this.#req
    let methodAt = ABSENT
    let uriAt = ABSENT
    let hostAt = ABSENT
    for (let i = 0; i < rawHeaders.length; i += 2) {
      switch (rawHeaders[i]!.toLowerCase()) {
        case method?.name:
          if (methodAt !== ABSENT) return method!.repeated
          methodAt = i
          break
        case uri?.name:
          if (uriAt !== ABSENT) return uri!.repeated
          uriAt = i
          break
        case host?.name:
          if (hostAt !== ABSENT) return host!.repeated
          hostAt = i
          break
      }
    }
    this.method = method === undefined ? this.#req.method! : this.#valueAt(methodAt)
    this.uri = this.#valueAt(uriAt)
    this.host = this.#valueAt(hostAt)
    if (method?.missing !== undefined && this.method === '') return method.missing
    if (uri?.missing !== undefined && this.uri === '') return uri.missing
    if (host?.missing !== undefined && this.host === '') return host.missing
    if (uri === undefined) this.#readTarget()
    else if (host === undefined && !this.#readUrl()) return 'bad_original_url'
    return this
  }

  header(name: string): FieldValue {
    return fieldValue(this.#req.rawHeaders, name)
  }

  cookie(): string | undefined {
    return cookieHeader(this.#req.rawHeaders)
  }

  traceparent(): FieldValue {
    return this.header('traceparent')
  }

  #valueAt(at: number): string {
    return at === ABSENT ? '' : this.#req.rawHeaders[at + 1]!
  }

  #readTarget(): void {
    const target = this.#req.url!
    this.uri = originForm(target).slice(this.#shape.path.length)
    // RFC 9112 3.2.2: the host of an absolute target replaces the Host field.
    const at = hostStart(target, 0, target.length)
    if (at >= 0) this.host = target.slice(at, hostEnd(target, at, target.length))
  }

  /** Returns false if the URI is not an absolute URL. */
  #readUrl(): boolean {
    const url = this.uri
    const at = hostStart(url, 0, url.length)
    const end = at < 0 ? -1 : hostEnd(url, at, url.length)
    if (end < 0) return false
    this.host = url.slice(at, end)
    this.uri = url.slice(end)
    return true
  }
}

const ABSENT = -1

/** Explains what `/v1/decision` would respond. That endpoint reads no body; with `hasHints`, the gateway's hints about the body count. */
export function questionExplainer(engine: Engine, hasHints: boolean): ExplainRequest {
  return async (asked) => {
    const { plan } = engine
    if (plan === undefined) return explainRefusal('no_bundle_loaded')
    const view = askedQuestion(asked)
    if (typeof view === 'string') return explainRefusal(view)
    return explainDecision(await engine.explainStepwise(view, { body: hintedBody(view, plan, hasHints), caller: asked.caller }))
  }
}

/** Returns the request as `/v1/decision` reads it, or the reason why it is refused. */
export function askedQuestion(asked: AskedRequest): RequestView | Reason {
  return new HttpQuestion(DECISION, { rawHeaders: questionFields(asked) }).original()
}

function questionFields({ method, uri, host, fields }: AskedRequest): string[] {
  const original = ['X-Original-Method', method, 'X-Original-URI', uri]
  return host === undefined ? [...original, ...fields] : [...original, 'X-Original-Host', host, ...fields]
}
