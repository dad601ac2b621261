import { measureInTurns, speedRatio, warmUp } from '../decision/rounds.mjs'
import { rowsOf } from '../decision/rows.mjs'
import { atMost } from '../decision/targets.mjs'
import { startDoors } from './contestants.mjs'

/** What a question costs at each door, beside `/v1/decision`: a group of rows, and the targets. */
export async function measureDoors(plan) {
  const doors = await startDoors()
  console.error('the doors')
  const cases = Object.values(doors)
  await warmUp(cases, undefined, plan)
  const samples = await measureInTurns(cases, undefined, plan)
  const { decision, unixSocket, forwardAuth, rateLimit, rateLimitAlone, peer } = doors
  /** What the one costs, by what the other does. */
  const costRatio = (one, other) => speedRatio(samples.get(other), samples.get(one))
  return {
    group: {
      title: 'doors; gRPC with 100 streams a connection',
      ratioTitle: 'it : decision',
      rows: rowsOf(cases, samples, (each) => (each === decision ? undefined : costRatio(each, decision))),
    },
    targets: [
      atMost('ShouldRateLimit : /v1/decision', costRatio(rateLimit, decision), 0.7),
      atMost('the same, one stream alone', costRatio(rateLimitAlone, decision), 1.2),
      atMost('ShouldRateLimit : envoyproxy/ratelimit', costRatio(rateLimit, peer), 1 / 3),
      atMost('unix socket : TCP', costRatio(unixSocket, decision), 0.85),
      atMost('forward-auth : /v1/decision', costRatio(forwardAuth, decision), 1.05),
    ],
  }
}
