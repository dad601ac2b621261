import type { Reason } from '../../engine/reasons.ts'
import { cookieHeader, HttpRequestView } from '../../http/raw-headers.ts'
import type { RequestView } from '../../request/view.ts'
import type { Question } from './decision-endpoint.ts'

/** A question that `node:http` has read. */
export class HttpQuestion implements Question {
  readonly #rawHeaders: readonly string[]

  constructor(rawHeaders: readonly string[]) {
    this.#rawHeaders = rawHeaders
  }

  original(): RequestView | Reason {
    const rawHeaders = this.#rawHeaders
    let method: string | undefined
    let uri: string | undefined
    let host: string | undefined
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const field = rawHeaders[i]!
      if (field.length < 14 || field.length > 17) continue
      switch (field.toLowerCase()) {
        case 'x-original-method':
          if (method !== undefined) return 'repeated_original_method'
          method = rawHeaders[i + 1]!
          break
        case 'x-original-uri':
          if (uri !== undefined) return 'repeated_original_uri'
          uri = rawHeaders[i + 1]!
          break
        case 'x-original-host':
          if (host !== undefined) return 'repeated_original_host'
          host = rawHeaders[i + 1]!
          break
      }
    }
    if (!method) return 'missing_original_method'
    if (!uri) return 'missing_original_uri'
    return new HttpRequestView(rawHeaders, method, uri, host ?? '')
  }

  cookie(): string | undefined {
    return cookieHeader(this.#rawHeaders)
  }
}
