import { proxyScenario } from './proxy-scenario.ts'
import { soak } from './scenario.ts'

soak('proxy-node', (bench) => proxyScenario(bench, { env: { EDGE_PROXY_WIRE: 'node' }, names: [], make: async () => {} }))
