// A reference: two threads with a node:http server each, and nothing else. On Node 20 threads cannot share a port without more ado.
import { createServer } from 'node:http'
import { isMainThread, Worker, workerData } from 'node:worker_threads'

if (isMainThread) {
  for (const port of [0, Number(process.env.PORT)]) new Worker(new URL(import.meta.url), { workerData: port })
} else {
  createServer((_req, res) => res.end()).listen(workerData, '127.0.0.1')
}
