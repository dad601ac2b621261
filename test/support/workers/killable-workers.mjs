import { BroadcastChannel, isMainThread, workerData } from 'node:worker_threads'

/** Loaded before a real `edge` (NODE_OPTIONS=--import): at SIGUSR2 its first worker ends at once, with whatever it has under way. */
const channel = new BroadcastChannel('killable-workers')
channel.unref()
if (isMainThread) process.on('SIGUSR2', () => channel.postMessage('end'))
else if (workerData?.worker === 1) channel.onmessage = () => process.exit(7)
