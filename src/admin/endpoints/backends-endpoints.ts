import type { Logger } from 'pino'
import { show } from '../../text/problem.ts'
import { closest } from '../../text/suggest.ts'
import { ApiError } from '../api/api-error.ts'
import { readQuery, readReason, refuseUnknown } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type { RetryRequest } from '../api/backend-types.ts'
import type { BackendReport } from './backend-report.ts'

export interface BackendsParts {
  readonly report: BackendReport
  readonly logger: Logger
  /** Adds the retry to the list of changes. */
  readonly note: (retry: RetryNote) => Promise<void>
}

/** An operator has had a backend tried again, for the list of changes. */
export interface RetryNote {
  readonly backend: string
  readonly actor: string
  readonly reason: string
}

/** GET backends, and POST backends/{name}/retry. */
export function* backendsEndpoints({ report, logger, note }: BackendsParts): Generator<ApiRoute> {
  yield {
    method: 'GET',
    path: 'backends',
    handle: ({ query }) => {
      readQuery(query, [])
      return { status: 200, json: report.all() }
    },
  }
  yield {
    method: 'POST',
    path: 'backends/',
    tail: '/retry',
    handle: async ({ rest: name, query, body, actor }) => {
      readQuery(query, [])
      refuseUnknown<RetryRequest>(body, ['reason'])
      const reason = readReason(body['reason'])
      refuseUnknownBackend(name, report.names)
      if (!report.tryNow(name)) throw new ApiError('not_cooling', `backend ${show(name)} does not cool, so there is nothing to retry`)
      logger.info({ event: 'backend_retried', actor, reason, backend: name }, 'an operator has a backend tried again at once')
      await note({ backend: name, actor, reason })
      return { status: 200, json: report.one(name)! }
    },
  }
}

function refuseUnknownBackend(name: string, names: readonly string[]): void {
  if (names.includes(name)) return
  if (names.length === 0)
    throw new ApiError('unknown_backend', `there is no backend ${show(name)}: the active bundle has no routes that this instance uses`)
  const suggestion = closest(name, names)
  const hint = suggestion === undefined ? '' : ` — did you mean ${show(suggestion)}?`
  throw new ApiError('unknown_backend', `there is no backend ${show(name)} in the active bundle${hint}`)
}
