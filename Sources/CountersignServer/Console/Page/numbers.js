// Amounts, parts and days of figures as people write them.

import {el, several} from './elements.js'
import {number} from './tables.js'

const percents = new Intl.NumberFormat('en-GB', {style: 'percent', maximumFractionDigits: 1})
export const percent = (part) => part === null ? '–' : percents.format(part)
export const wholePercent = new Intl.NumberFormat('en-GB', {style: 'percent'}).format
const signedPercents = new Intl.NumberFormat('en-GB', {style: 'percent', maximumFractionDigits: 0, signDisplay: 'exceptZero'})
const signed = new Intl.NumberFormat('en-GB', {maximumFractionDigits: 1, signDisplay: 'exceptZero'})
export const shorts = new Intl.NumberFormat('en-GB', {notation: 'compact', maximumFractionDigits: 1})

/// - Parameters:
///   - text: the change.
///   - step: below zero for a change to the worse, zero for none.
const changed = (text, step, rest) => [el('strong', {class: step > 0 ? 'up' : step < 0 ? 'down' : null}, text), ` ${rest}`]

/// The change of a number or an amount against the span before.
export function change(now, before, format) {
  if (before === 0) return now === 0 ? null : 'none in the span before'
  const step = (now - before) / Math.abs(before)
  return changed(signedPercents.format(step), step, `from ${format(before)}`)
}

/// The change of a part in percentage points; `isGood` says whether more is better.
export function points(now, before, isGood, span = 'the span before') {
  if (now === null || before === null) return now === null ? null : `unknown for ${span}`
  const step = Math.round((now - before) * 1000) / 10
  return changed(`${signed.format(step)} ${Math.abs(step) === 1 ? 'point' : 'points'}`, isGood ? step : -step,
    `from ${percent(before)}`)
}

/// - Parameter name: a currency, or a sum in one: `USD, all converted`.
export function money(name) {
  const currency = name.slice(0, 3)
  const options = {minimumFractionDigits: 2, maximumFractionDigits: 2}
  // A currency that the browser does not know is written after the amount.
  try { return new Intl.NumberFormat('en-GB', {style: 'currency', currency, ...options}).format } catch {
    const plain = new Intl.NumberFormat('en-GB', options)
    return (amount) => `${plain.format(amount)} ${currency}`
  }
}

/// The amount in one currency, for a cell; nothing where there is none.
export function amountIn(amounts, member, currency) {
  const amount = amounts.find((one) => one.currency === currency)
  return amount && Number(amount[member]) !== 0 ? number(amount[member], money(currency)(Number(amount[member]))) : ''
}

const formats = Object.fromEntries(Object.entries({
  day: {day: 'numeric', month: 'short'}, fullDay: {day: 'numeric', month: 'long', year: 'numeric'},
  month: {month: 'short', year: '2-digit'}, fullMonth: {month: 'long', year: 'numeric'},
}).map(([name, options]) => [name, new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', ...options})]))

/// A product ID or another name of the app's, which may go on in another line after each point.
export const identifier = (id) => id.split(/(?<=[._-])/).map((part) => [part, el('wbr')])

export function dated({from}, isByMonth) {
  const day = new Date(`${from}T00:00:00Z`)
  const [short, long] = isByMonth ? [formats.month, formats.fullMonth] : [formats.day, formats.fullDay]
  return {from, unit: isByMonth ? 'Month' : 'Day', short: short.format(day), long: long.format(day)}
}

/// `P1M` in words.
export function period(text) {
  const match = /^P([0-9]+)([DWMY])$/.exec(text || '')
  if (!match) return text ? text : 'once'
  const names = {D: 'day', W: 'week', M: 'month', Y: 'year'}
  return `every ${match[1] === '1' ? names[match[2]] : several(Number(match[1]), names[match[2]])}`
}
