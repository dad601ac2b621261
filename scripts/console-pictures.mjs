// `npm run pictures`: takes docs/pictures/console-*.png from a service with a few minutes of traffic. Needs Debian's
// chromium-headless-shell; with the package fonts-inter, the pictures look as they do in the repository.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPicturedService } from './pictures/pictured-service.mjs'
import { takePictures } from './pictures/take-pictures.mjs'
import { beginTraffic } from './pictures/traffic.mjs'

const TRAFFIC_S = Number(process.argv[2] ?? 240)

const folder = mkdtempSync(join(tmpdir(), 'edge-pictures-'))
const service = await startPicturedService(folder)
try {
  const traffic = beginTraffic(service.port)
  await new Promise((resolve) => setTimeout(resolve, (TRAFFIC_S * 1000) / 2))
  await service.operate()
  await new Promise((resolve) => setTimeout(resolve, (TRAFFIC_S * 1000) / 2))
  await takePictures(service, folder)
  traffic.end()
} finally {
  service.stop()
  rmSync(folder, { recursive: true })
}
