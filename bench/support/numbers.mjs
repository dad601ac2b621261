export function whole(number) {
  return Math.round(number).toLocaleString('en')
}

/** For JSON: four digits are more than the methods give. */
export function rounded(_, value) {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value
}
