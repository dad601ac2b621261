import { PUBLISHED_EVENTS } from '../../../telemetry/events/published-events.ts'
import { ApiError } from '../api-error.ts'
import type { ApiRoute } from '../api-route.ts'
import type { EventStreams } from './event-streams.ts'

/** GET events: what happens, as it happens (server-sent events). `?event=reject,bundle_applied` chooses some. */
export function eventsEndpoint(streams: EventStreams): ApiRoute {
  return {
    method: 'GET',
    path: 'events',
    handle: async ({ query }) => {
      const names = namesIn(query)
      await streams.claim()
      return { stream: (res) => streams.add(res, names) }
    },
  }
}

function namesIn(query: URLSearchParams): readonly string[] | undefined {
  const unknown = [...query.keys()].find((name) => name !== 'event')
  if (unknown !== undefined) throw new ApiError('bad_request', `unknown parameter: ${unknown}; expected event`)
  if (!query.has('event')) return undefined
  const names = query.getAll('event').flatMap((list) => list.split(','))
  for (const name of names) {
    if (!PUBLISHED_EVENTS.has(name)) throw new ApiError('bad_request', `event: there is no event ${JSON.stringify(name.slice(0, 64))}`)
  }
  return names
}
