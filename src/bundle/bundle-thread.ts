/** Entry point of the thread that reads one bundle. */

import { parentPort, workerData } from 'node:worker_threads'
import { readBundle } from './bundle-reader.ts'
import type { BundleThreadData } from './read-in-thread.ts'

parentPort!.postMessage(readBundle(...(workerData as BundleThreadData)))
