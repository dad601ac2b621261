// The engine inside another program: no server, no socket. Run it with `node examples/library.mjs` after `npm run build`.
import { createEngine, formatProblem } from 'edge-decision-service'

const bundle = {
  bundle_version: 1,
  policies: [
    {
      id: 'reports',
      spec: {
        selector: { pathPrefix: '/reports' },
        rules: [
          {
            name: 'per-key',
            match: { 'header:x-api-key': '*' },
            limit_keys: ['header:x-api-key'],
            algorithm: 'token_bucket',
            algorithm_config: { tokens_per_second: 0.1, burst: 2 },
          },
          { name: 'no-key', match: 'else', algorithm: 'unlimited' }, // the program refuses such requests itself
        ],
      },
    },
  ],
}

// A clock of our own, so that the program can skip ten seconds. Leave `clock` out to use the system's.
let nowMs = 0
const clock = { nowMs: () => nowMs, wallMs: () => Date.now() }

const engine = createEngine({ storeBytes: 1024 * 1024, clock })

const loaded = engine.load(JSON.stringify(bundle))
for (const warning of loaded.warnings) console.warn(formatProblem(warning))
if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'))

ask('alice')
ask('alice')
ask('alice')
ask('bob')
nowMs += 10_000
ask('alice')

function ask(apiKey) {
  const decision = engine.decide({ method: 'GET', uri: '/reports/7?page=2', headers: { 'X-Api-Key': apiKey } })
  switch (decision.action) {
    case 'allow':
      console.log(`${apiKey}: go on, ${decision.limit?.remaining ?? 'any number of'} left`)
      break
    case 'reject':
      console.log(`${apiKey}: ${decision.reason}, try again in ${Math.ceil(decision.limit.resetMs / 1000)} s`)
      break
    case 'refuse':
      console.log(`${apiKey}: cannot be decided, ${decision.reason}`)
  }
}
