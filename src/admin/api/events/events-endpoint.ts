import { show } from '../../../policy/problem.ts'
import { PUBLISHED_EVENTS } from '../../../telemetry/events/published-events.ts'
import type { Access } from '../access.ts'
import { ApiError } from '../api-error.ts'
import type { ApiRoute } from '../api-route.ts'
import { readQuery } from '../query.ts'
import type { EventStreams } from './event-streams.ts'

/** GET events: what happens, as it happens (server-sent events). `?event=reject,bundle_applied` chooses some. */
export function eventsEndpoint(streams: EventStreams, access: Access): ApiRoute {
  return {
    method: 'GET',
    path: 'events',
    handle: async ({ query, http }) => {
      const names = namesIn(query)
      await streams.claim()
      return { stream: (res) => streams.add(res, names, () => access.isLasting(http)) }
    },
  }
}

function namesIn(query: URLSearchParams): readonly string[] | undefined {
  const names = readQuery(query, ['event']).event?.split(',')
  const unknown = names?.find((name) => !PUBLISHED_EVENTS.has(name))
  if (unknown !== undefined) throw new ApiError('bad_request', `event: there is no event ${show(unknown)}`)
  return names
}
