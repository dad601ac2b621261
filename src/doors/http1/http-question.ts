import type { Door } from '../../decide/door.ts'
import type { Question } from '../../decide/question.ts'
import type { Reason } from '../../engine/reasons.ts'
import { cookieHeader, fieldValue } from '../../http/raw-headers.ts'
import type { FieldValue, RequestView } from '../../request/view.ts'
import type { QuestionShape } from '../question-shapes.ts'

/** A question that `node:http` has read. */
export class HttpQuestion implements Question, RequestView {
  readonly #shape: QuestionShape
  readonly #rawHeaders: readonly string[]
  method = ''
  uri = ''
  host = ''

  constructor(shape: QuestionShape, rawHeaders: readonly string[]) {
    this.#shape = shape
    this.#rawHeaders = rawHeaders
  }

  get door(): Door {
    return this.#shape.door
  }

  original(): RequestView | Reason {
    const { method, uri, host } = this.#shape
    const rawHeaders = this.#rawHeaders
    let methodAt = ABSENT
    let uriAt = ABSENT
    let hostAt = ABSENT
    for (let i = 0; i < rawHeaders.length; i += 2) {
      switch (rawHeaders[i]!.toLowerCase()) {
        case method.name:
          if (methodAt !== ABSENT) return method.repeated
          methodAt = i
          break
        case uri.name:
          if (uriAt !== ABSENT) return uri.repeated
          uriAt = i
          break
        case host.name:
          if (hostAt !== ABSENT) return host.repeated
          hostAt = i
          break
      }
    }
    this.method = this.#valueAt(methodAt)
    this.uri = this.#valueAt(uriAt)
    this.host = this.#valueAt(hostAt)
    if (this.method === '' && method.missing !== undefined) return method.missing
    if (this.uri === '' && uri.missing !== undefined) return uri.missing
    if (this.host === '' && host.missing !== undefined) return host.missing
    return this
  }

  header(name: string): FieldValue {
    return fieldValue(this.#rawHeaders, name)
  }

  cookie(): string | undefined {
    return cookieHeader(this.#rawHeaders)
  }

  #valueAt(at: number): string {
    return at === ABSENT ? '' : this.#rawHeaders[at + 1]!
  }
}

const ABSENT = -1
