import { proxyScenario } from './proxy-scenario.ts'
import { soak } from './scenario.ts'

soak('proxy-embedded', (bench) => proxyScenario(bench, { env: {}, names: [], make: async () => {} }))
