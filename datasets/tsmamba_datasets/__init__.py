"""Time series to learn, test and compare with; always as polars frames.

``load_*`` reads what is shipped, ``fetch_*`` gets public sets from the folder named by the
environment variable ``TSMAMBA_DATA`` or from their source (install extra ``datasets``), and
``make_*`` makes series of known structure. Long frames have ``unique_id``, ``ds``, ``y``;
wide ones ``ds`` and one column a signal.
"""

from tsmamba_datasets._bundled import (
    load_icu_stays,
    load_nab,
    load_physionet_stays,
    load_pjm_load,
)
from tsmamba_datasets._fetch_anomaly import (
    fetch_asd,
    fetch_gecco2018,
    fetch_nab,
    fetch_oil_3w,
    fetch_skab,
    fetch_smap_msl,
    fetch_smd,
    fetch_ucr_anomaly,
)
from tsmamba_datasets._fetch_forecasting import (
    fetch_air_quality_valencia,
    fetch_beijing_pm25,
    fetch_bike_sharing,
    fetch_ett,
    fetch_exchange_rate,
    fetch_m4_hourly,
    fetch_national_illness,
    fetch_pjm_load,
    fetch_trail_counter,
    fetch_vic_electricity,
)
from tsmamba_datasets._fetch_health import (
    fetch_ecg,
    fetch_icu_demo,
    fetch_physionet2012,
)
from tsmamba_datasets._fetch_logs import (
    fetch_hdfs_sessions,
    fetch_loghub_2k,
)
from tsmamba_datasets._synthetic import (
    make_anomalies,
    make_irregular,
    make_long_memory,
    make_seasonal,
)
from tsmamba_datasets._synthetic_logs import make_service_logs

__all__ = [
    "fetch_air_quality_valencia",
    "fetch_asd",
    "fetch_beijing_pm25",
    "fetch_bike_sharing",
    "fetch_ecg",
    "fetch_ett",
    "fetch_exchange_rate",
    "fetch_gecco2018",
    "fetch_hdfs_sessions",
    "fetch_icu_demo",
    "fetch_loghub_2k",
    "fetch_m4_hourly",
    "fetch_nab",
    "fetch_national_illness",
    "fetch_oil_3w",
    "fetch_physionet2012",
    "fetch_pjm_load",
    "fetch_skab",
    "fetch_smap_msl",
    "fetch_smd",
    "fetch_trail_counter",
    "fetch_ucr_anomaly",
    "fetch_vic_electricity",
    "load_icu_stays",
    "load_nab",
    "load_physionet_stays",
    "load_pjm_load",
    "make_anomalies",
    "make_irregular",
    "make_long_memory",
    "make_seasonal",
    "make_service_logs",
]
