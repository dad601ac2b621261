import { fetchFrom } from '../support/http-client.mjs'

/** What edge says it has asked of Redis so far. */
export async function countsOf({ port }) {
  const { body } = await fetchFrom(port, '/metrics')
  return {
    roundTrips: metric(body, 'edge_redis_round_trip_seconds_count'),
    failures: metric(body, 'edge_redis_answers_total{by="failure_mode"}'),
  }
}

function metric(metrics, series) {
  const line = metrics.split('\n').find((each) => each.startsWith(`${series} `))
  if (line === undefined) throw new Error(`there is no metric ${series}`)
  return Number(line.slice(series.length))
}
