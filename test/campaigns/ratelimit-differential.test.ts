import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { jsClient } from '../support/grpc/js-client.ts'
import { CONFIGURATION, DESCRIPTOR, type Entries, type Written } from '../support/ratelimit/configurations.ts'
import { ratelimitMissing, runningRatelimit } from '../support/ratelimit/ratelimit.ts'
import { command } from '../support/service/command.ts'
import { running, scratchDirectory } from '../support/service/running.ts'

const CONFIGURATIONS = 60
const CALLS = 40

interface Answer {
  readonly statuses: readonly Status[]
}

interface Status {
  readonly code: string
  readonly current_limit?: { readonly requests_per_unit: number }
  readonly limit_remaining?: number
}

describeWith(ratelimitMissing(), 'the real envoyproxy/ratelimit, and edge with its configuration converted', () => {
  test('admit the same calls, with the same limits and as many hits left', async () => {
    const samples = fc.sample(CONFIGURATION, CONFIGURATIONS)
    const files = samples.map((descriptors, i) => JSON.stringify({ domain: `d${i}`, descriptors: byYear(descriptors) }))
    const theirs = asking(await runningRatelimit(files))
    const edge = await running({ bundle: await converted(files), fileName: 'bundle.yaml', env: { EDGE_GRPC_PORT: '0' } })
    const ours = asking(edge.grpcPort)
    for (const [i, file] of files.entries()) {
      for (const entries of fc.sample(DESCRIPTOR, CALLS)) {
        const [theirStatus, ourStatus] = [await theirs(`d${i}`, entries), await ours(`d${i}`, entries)]
        expect({ file, entries, limit_remaining: 0, ...ourStatus }).toMatchObject({ file, entries, ...comparable(theirStatus, ourStatus) })
      }
    }
  })
})

/** One window for the whole test. */
function byYear(descriptors: readonly Written[]): readonly Written[] {
  return descriptors.map((each) => ({
    ...each,
    ...(each.rate_limit?.unit && { rate_limit: { ...each.rate_limit, unit: 'year' } }),
    descriptors: byYear(each.descriptors),
  }))
}

async function converted(files: readonly string[]): Promise<string> {
  const directory = await scratchDirectory()
  const paths = files.map((_, i) => join(directory, `${i}.yaml`))
  for (const [i, path] of paths.entries()) await writeFile(path, files[i]!)
  const { status, stdout } = await command('convert', 'ratelimit', ...paths)
  expect(status).toBe(0)
  return stdout
}

function asking(port: number): (domain: string, entries: Entries) => Promise<Status> {
  const client = jsClient(`127.0.0.1:${port}`, 'rate_limit.proto', 'envoy.service.ratelimit.v3.RateLimitService')
  return async (domain, entries) => {
    const request = { domain, descriptors: [{ entries: entries.map(([key, value]) => ({ key, value })) }] }
    const { response, failure } = await client.call<Answer>('ShouldRateLimit', request)
    if (failure !== undefined) throw new Error(failure.details)
    return response.statuses[0]!
  }
}

/** What edge says nothing about: limits in shadow mode, and what it has no number for. */
function comparable({ code, current_limit, limit_remaining = 0 }: Status, ours: Status): object {
  if (!ours.current_limit) return { code }
  return { code, current_limit: { requests_per_unit: current_limit?.requests_per_unit }, limit_remaining }
}
