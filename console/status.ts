import type { Status } from '../src/admin/api/instance-types.ts'
import { LIVE_MS, Poll } from './live.ts'

/** The shell polls it; views only read it. */
export const statusPoll = new Poll<Status>('status', LIVE_MS)
export const status = statusPoll.data
