import { soakRedisDecisions } from './redis-decisions.ts'

soakRedisDecisions('decisions-redis-leased', 'leased')
