"""What is known of each data set: one entry a set, one row of ``data/files.csv`` a file."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tsmamba_datasets.errors import DatasetError

_PACKAGE = Path(__file__).parent


@dataclass(frozen=True)
class DataFile:
    """One source file: where it lies, what its bytes are, where to get it.

    Parameters
    ----------
    dataset : str
        Name of the set in the catalog.
    path : str
        Path below the data folder.
    sha256 : str
        Sum of the file as it lies in the data folder.
    content_sha256 : str
        Sum of the content, that is of the decompressed file.
    url : str
        Address of the original, or "" where no public file has these bytes.
        Addresses are pinned to a commit; where the publisher's listing showed only a
        short commit id, the short one stands there.

    Examples
    --------
    >>> find_file("ett/ETTh1.csv.gz").dataset
    'ett'
    """

    dataset: str
    path: str
    sha256: str
    content_sha256: str
    url: str


@dataclass(frozen=True)
class Dataset:
    """One data set and its terms of use.

    Parameters
    ----------
    name : str
        Short name; the page is ``descr/<name>.md``.
    title : str
        One line on the content.
    licence : str
        Terms as the source states them.
    frequency : str
        Time step of the series.
    columns : str
        Columns of the frame that the loader returns.

    Examples
    --------
    >>> CATALOG["ett"].licence
    'CC BY-ND 4.0'
    """

    name: str
    title: str
    licence: str
    frequency: str
    columns: str

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Source files of the set, in the order of ``data/files.csv``."""
        return tuple(file for file in _files().values() if file.dataset == self.name)

    @property
    def page(self) -> str:
        """Text of the page that describes the set."""
        return package_file(f"descr/{self.name}.md").read_text(encoding="utf-8")


def package_file(path: str) -> Path:
    """Return a file that is shipped inside the package.

    Parameters
    ----------
    path : str
        Path below the package folder.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> package_file("data/files.csv").is_file()
    True
    """
    return _PACKAGE / path


@cache
def _files() -> dict[str, DataFile]:
    """Read the table of source files once."""
    lines = package_file("data/files.csv").read_text(encoding="utf-8").splitlines()
    return {row["path"]: DataFile(**row) for row in csv.DictReader(lines)}


def find_file(path: str) -> DataFile:
    """Look one source file up.

    Parameters
    ----------
    path : str
        Path below the data folder.

    Returns
    -------
    DataFile
        The row of the table.

    Raises
    ------
    DatasetError
        If the table has no such path.

    Examples
    --------
    >>> find_file("national_illness/national_illness.csv").sha256[:8]
    '8594cecb'
    """
    try:
        return _files()[path]
    except KeyError:
        raise DatasetError(
            f"path={path!r} is not in data/files.csv; accepted: the {len(_files())} paths listed "
            "there. Add a row with its sha256 first."
        ) from None


_ENTRIES = (
    Dataset(
        name="pjm_hourly",
        title="Hourly electric load of 12 PJM regions",
        licence="CC0 (collection), BSD-3-Clause (repository)",
        frequency="1 h",
        columns="unique_id, ds, y",
    ),
    Dataset(
        name="ett",
        title="Electricity transformer temperature, two transformers",
        licence="CC BY-ND 4.0",
        frequency="1 h or 15 min",
        columns="ds, HUFL, HULL, MUFL, MULL, LUFL, LULL, OT",
    ),
    Dataset(
        name="exchange_rate",
        title="Daily exchange rates of 8 currencies",
        licence="MIT (repository); none stated for the data",
        frequency="1 day",
        columns="ds, australia, britain, canada, switzerland, china, japan, singapore, new_zealand",
    ),
    Dataset(
        name="national_illness",
        title="Weekly influenza-like illness in the USA",
        licence="MIT (repository); CDC, public domain",
        frequency="7 days",
        columns="ds, weighted_ili, unweighted_ili, age_0_4, age_5_24, ili_total, num_providers, OT",
    ),
    Dataset(
        name="m4_hourly",
        title="The 414 hourly series of the M4 competition",
        licence="none stated; published for free use",
        frequency="1 h, no stamps",
        columns="unique_id, ds, y",
    ),
    Dataset(
        name="beijing_pm25",
        title="Fine dust and weather in Beijing",
        licence="CC BY 4.0 (UCI)",
        frequency="1 h",
        columns="ds, pm2.5, DEWP, TEMP, PRES, cbwd, Iws, Is, Ir",
    ),
    Dataset(
        name="vic_electricity",
        title="Electricity demand and temperature in Victoria",
        licence="BSD-3-Clause (repository); AEMO",
        frequency="30 min",
        columns="ds, Demand, Temperature, Date, Holiday",
    ),
    Dataset(
        name="air_quality_valencia",
        title="Air quality in Valencia",
        licence="BSD-3-Clause (repository); Generalitat Valenciana open data",
        frequency="1 h",
        columns="ds, so2, co, no, no2, pm10, nox, o3, veloc., direc., pm2.5",
    ),
    Dataset(
        name="bike_sharing",
        title="Bike hires in Washington",
        licence="CC BY 4.0 (UCI)",
        frequency="1 h",
        columns="ds, holiday, workingday, weather, temp, atemp, hum, windspeed, users, month, "
        "hour, weekday",
    ),
    Dataset(
        name="trail_counter",
        title="Foot and cycle traffic on a Seattle trail",
        licence="BSD-3-Clause (repository); City of Seattle open data",
        frequency="1 h",
        columns="ds, total, ped_south, ped_north, bike_north, bike_south",
    ),
    Dataset(
        name="nab",
        title="Numenta Anomaly Benchmark, 58 labelled series",
        licence="MIT",
        frequency="mostly 5 min",
        columns="unique_id, ds, y, label",
    ),
    Dataset(
        name="smd",
        title="Server Machine Dataset, 5 machines",
        licence="MIT",
        frequency="1 min, no stamps",
        columns="ds, f00 to f37, label",
    ),
    Dataset(
        name="asd",
        title="Application Server Dataset, 8 servers",
        licence="MIT",
        frequency="5 min, no stamps",
        columns="ds, f00 to f18, label",
    ),
    Dataset(
        name="ucr_anomaly",
        title="UCR Anomaly Archive, the 125 odd-numbered series",
        licence="none stated for the archive; MIT (repository)",
        frequency="no stamps",
        columns="unique_id, ds, y, label",
    ),
    Dataset(
        name="smap_msl",
        title="Spacecraft telemetry, SMAP and MSL",
        licence="BSD-3-Clause (repository); Caltech/JPL",
        frequency="1 min nominal, no stamps",
        columns="ds, value, c01 and on, label",
    ),
    Dataset(
        name="skab",
        title="Skoltech Anomaly Benchmark, a water circuit",
        licence="GPL-3.0",
        frequency="1 s",
        columns="ds, 8 sensors, label, changepoint",
    ),
    Dataset(
        name="gecco2018",
        title="Drinking-water quality, GECCO 2018 challenge",
        licence="MIT (repository); none stated upstream",
        frequency="1 min, no stamps",
        columns="ds, tp, cl, ph, redox, leit, trueb, cl_2, fm, fm_2, label",
    ),
    Dataset(
        name="oil_3w",
        title="Undesirable events in offshore oil wells",
        licence="CC BY 4.0",
        frequency="1 s",
        columns="ds, P-PDG, P-TPT, T-TPT, P-MON-CKP, T-JUS-CKP, P-JUS-CKGL, T-JUS-CKGL, QGL, class",
    ),
    Dataset(
        name="loghub_2k",
        title="2,000 log lines of each of 16 systems",
        licence="free for research with reference to Loghub",
        frequency="event",
        columns="line_id, line; and the structured columns",
    ),
    Dataset(
        name="hdfs_sessions",
        title="Block traces of HDFS as event sequences",
        licence="MIT (repository); Loghub terms",
        frequency="event",
        columns="session, events, label",
    ),
    Dataset(
        name="physionet2012",
        title="ICU stays of the PhysioNet 2012 challenge",
        licence="ODC-BY 1.0",
        frequency="irregular",
        columns="subject_id, minute, code, numeric_value",
    ),
    Dataset(
        name="ecg",
        title="Electrocardiogram, MIT-BIH record 100",
        licence="ODC-BY 1.0",
        frequency="360 Hz",
        columns="ds, MLII, V5",
    ),
    Dataset(
        name="icu_demo_yaib",
        title="Hourly ICU demo cohorts of five tasks",
        licence="ODbL 1.0",
        frequency="1 h",
        columns="subject_id, hour, 48 signals",
    ),
)

CATALOG = {entry.name: entry for entry in _ENTRIES}
